//! Bounds on the figures of a load report: `p99 > 10ms`, as `--fail-if` and `--slo` take them.

use std::str::FromStr;

use model::record::{Cpu, Growth, LoadReport, Percentiles};
use model::units::{Bytes, Rate, Span, format_ns};

use model::units::percent;

/// A figure, an order, and a value: `p99 > 10ms`, `rate < 30k`, `errors.timeout > 0`, `error_rate > 0.1%`.
#[derive(Debug, Clone)]
pub struct Bound {
    text: String,
    figure: Figure,
    order: Order,
    value: f64,
}

/// Why a text is not a bound, in one sentence that says how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BoundError(String);

/// The outcome of a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Judged {
    /// The figure lies on the side that the bound names.
    Holds(f64),
    /// The figure lies on the other side.
    Fails(f64),
    /// The value lies in the interval of the figure: the window was too short to tell.
    Undecided {
        /// The figure.
        growth: Growth,
        /// How many times as long a window would do, where what is known gets twice as exact in twice the time.
        times_as_long: f64,
    },
    /// The window had too few requests for the figure, or this kind of load does not have it.
    Absent,
}

/// The orders, longest first so that `<=` is not read as `<`.
const ORDERS: [(&str, Order); 4] =
    [("<=", Order::AtMost), (">=", Order::AtLeast), ("<", Order::Below), (">", Order::Above)];

/// On which side of a value a figure has to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Order {
    /// What stands before and behind the order in a text that has one.
    pub(crate) fn split(text: &str) -> Option<(&str, Self, &str)> {
        let split = |(sign, order): &(&'static str, Self)| {
            let (name, value) = text.split_once(sign)?;
            Some((name.trim(), *order, value.trim()))
        };
        ORDERS.iter().find_map(split)
    }

    pub(crate) fn holds(self, figure: f64, value: f64) -> bool {
        match self {
            Self::Below => figure < value,
            Self::AtMost => figure <= value,
            Self::Above => figure > value,
            Self::AtLeast => figure >= value,
        }
    }
}

/// What a figure is measured in: how its value is written and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
    /// 0 to 1.
    Share,
    /// A whole number.
    Count,
    /// Bytes.
    Size,
    /// Bytes each hour.
    SizePerHour,
    /// A number each hour.
    PerHour,
    /// A number without a unit that need not be whole.
    Number,
}

/// Bytes of a MiB.
const MIB: f64 = 1024.0 * 1024.0;

/// Which of the three times of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Response,
    Service,
    SendLag,
}

#[derive(Debug, Clone, Copy)]
enum Figure {
    Latency(Time, Option<f64>, ReadTimes),
    Other(Unit, ReadReport),
    /// Known with an interval, which has to lie on one side as a whole.
    Slope(Unit, ReadGrowth),
}

/// Reads a figure; nothing where the window had too few requests for it.
type ReadTimes = fn(&Percentiles) -> Option<f64>;
/// Likewise of the whole report.
type ReadReport = fn(&LoadReport) -> Option<f64>;
/// Likewise of what grows.
type ReadGrowth = fn(&LoadReport) -> Option<Growth>;

/// Names of the latency figures, as in the JSON, with a point in the place of an underscore allowed; of percentiles which.
const LATENCIES: [(&str, Option<f64>, ReadTimes); 10] = [
    ("p50", Some(0.5), |row| row.p50.map(|ns| ns as f64)),
    ("p75", Some(0.75), |row| row.p75.map(|ns| ns as f64)),
    ("p90", Some(0.9), |row| row.p90.map(|ns| ns as f64)),
    ("p99", Some(0.99), |row| row.p99.map(|ns| ns as f64)),
    ("p99_9", Some(0.999), |row| row.p99_9.map(|ns| ns as f64)),
    ("p99_99", Some(0.9999), |row| row.p99_99.map(|ns| ns as f64)),
    ("p99_999", Some(0.99999), |row| row.p99_999.map(|ns| ns as f64)),
    ("max", None, |row| (row.count > 0).then_some(row.max as f64)),
    ("mean", None, |row| (row.count > 0).then_some(row.mean)),
    ("stdev", None, |row| (row.count > 0).then_some(row.stdev)),
];

/// Names of the other figures, in the order in which they are told.
const OTHERS: [(&str, Unit, ReadReport); 33] = [
    ("rate", Unit::Rate, |report| Some(report.rate_per_s)),
    ("rate_ratio", Unit::Share, |report| report.rate_ratio),
    ("requests", Unit::Count, |report| Some(report.requests as f64)),
    ("bytes_read", Unit::Size, |report| Some(report.bytes_read as f64)),
    ("errors", Unit::Count, |report| Some(report.errors.total() as f64)),
    ("errors_connect", Unit::Count, |report| Some(report.errors.connect as f64)),
    ("errors_read", Unit::Count, |report| Some(report.errors.read as f64)),
    ("errors_write", Unit::Count, |report| Some(report.errors.write as f64)),
    ("errors_timeout", Unit::Count, |report| Some(report.errors.timeout as f64)),
    ("errors_status", Unit::Count, |report| Some(report.errors.status as f64)),
    ("errors_parse", Unit::Count, |report| Some(report.errors.parse as f64)),
    ("errors_value", Unit::Count, |report| Some(report.errors.value as f64)),
    ("errors_surplus", Unit::Count, |report| Some(report.errors.surplus as f64)),
    ("error_rate", Unit::Share, |report| {
        let all = report.requests + report.errors.total();
        (all > 0).then(|| report.errors.total() as f64 / all as f64)
    }),
    ("unfinished", Unit::Count, |report| Some(report.unfinished as f64)),
    ("unsent", Unit::Count, |report| Some(report.unsent as f64)),
    ("resent", Unit::Count, |report| Some(report.resent as f64)),
    ("pieces_answers", Unit::Count, |report| report.pieces.map(|pieces| pieces.answers as f64)),
    ("pieces_apart", Unit::Time, |report| report.pieces.map(|pieces| pieces.apart_ns as f64)),
    ("pieces_longest", Unit::Time, |report| report.pieces.map(|pieces| pieces.longest_ns as f64)),
    ("established", Unit::Count, |report| Some(report.connections.established as f64)),
    ("in_flight", Unit::Number, |report| Some(report.in_flight)),
    ("per_connection_min", Unit::Count, |report| Some(report.per_connection.min as f64)),
    ("per_connection_max", Unit::Count, |report| Some(report.per_connection.max as f64)),
    ("per_connection_jain", Unit::Number, |report| Some(report.per_connection.jain)),
    ("cpu", Unit::Time, |report| per_request(report, |cpu| cpu.user + cpu.system)),
    ("cpu_user", Unit::Time, |report| per_request(report, |cpu| cpu.user)),
    ("cpu_system", Unit::Time, |report| per_request(report, |cpu| cpu.system)),
    ("busiest_thread", Unit::Share, |report| Some(report.busiest_thread)),
    ("autocorrelation", Unit::Number, |report| Some(report.autocorrelation)),
    ("effective_requests", Unit::Count, |report| Some(report.effective_requests as f64)),
    ("window", Unit::Time, |report| Some(report.window_ns as f64)),
    ("warnings", Unit::Count, |report| Some(report.warnings.len() as f64)),
];

/// Names of what grows.
const SLOPES: [(&str, Unit, ReadGrowth); 2] = [
    ("rss_slope", Unit::SizePerHour, |report| Some(report.server.as_ref()?.rss_slope_bytes)),
    ("descriptors_slope", Unit::PerHour, |report| Some(report.server.as_ref()?.descriptors_slope)),
];

fn per_request(report: &LoadReport, of: fn(&Cpu) -> f64) -> Option<f64> {
    (report.requests > 0).then(|| of(&report.cpu_ns_per_request))
}

impl Figure {
    fn named(name: &str) -> Option<Self> {
        let name = name.replace('.', "_");
        let (time, rest) = [("service_", Time::Service), ("send_lag_", Time::SendLag)]
            .into_iter()
            .find_map(|(prefix, time)| Some((time, name.strip_prefix(prefix)?)))
            .unwrap_or((Time::Response, name.strip_prefix("response_").unwrap_or(&name)));
        if let Some((_, quantile, read)) = LATENCIES.iter().find(|(known, ..)| *known == rest) {
            return Some(Self::Latency(time, *quantile, *read));
        }
        if let Some((_, unit, read)) = SLOPES.iter().find(|(known, ..)| *known == name) {
            return Some(Self::Slope(*unit, *read));
        }
        OTHERS.iter().find(|(known, ..)| *known == name).map(|(_, unit, read)| Self::Other(*unit, *read))
    }

    fn unit(&self) -> Unit {
        match self {
            Self::Latency(..) => Unit::Time,
            Self::Other(unit, _) | Self::Slope(unit, _) => *unit,
        }
    }

    fn read(&self, report: &LoadReport) -> Option<f64> {
        match self {
            Self::Latency(Time::Response, _, read) => read(&report.response_ns),
            Self::Latency(Time::Service, _, read) => read(&report.service_ns),
            Self::Latency(Time::SendLag, _, read) => read(&report.send_lag_ns),
            Self::Other(_, read) => read(report),
            Self::Slope(_, read) => Some(read(report)?.per_h),
        }
    }
}

impl Unit {
    pub(crate) fn parse(self, text: &str) -> Option<f64> {
        match self {
            Self::Time => text.parse::<Span>().ok().map(|span| span.as_ns() as f64),
            Self::Rate => text.parse::<Rate>().ok().map(Rate::get),
            Self::Share => match text.strip_suffix('%') {
                Some(percent) => percent.trim().parse::<f64>().ok().map(|value| value / 100.0),
                None => text.parse().ok(),
            },
            Self::Count => text.parse::<u64>().ok().map(|count| count as f64),
            Self::Size => text.parse::<Bytes>().ok().map(|size| size.0 as f64),
            Self::SizePerHour => hourly(text)?.parse::<Bytes>().ok().map(|size| size.0 as f64),
            Self::PerHour => hourly(text)?.parse().ok(),
            Self::Number => text.parse().ok(),
        }
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
    }

    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Time => "10ms",
            Self::Rate => "30k",
            Self::Share => "0.1%",
            Self::Count => "0",
            Self::Size => "64KiB",
            Self::SizePerHour => "1MiB/h",
            Self::PerHour => "10/h",
            Self::Number => "0.5",
        }
    }

    /// A value with its unit, for people.
    #[must_use]
    pub fn print(self, value: f64) -> String {
        match self {
            Self::Time => format_ns(value),
            Self::Rate => format!("{value:.0}/s"),
            Self::Share => percent(value),
            Self::Count => format!("{value:.0}"),
            Self::Size => format!("{value:.0} bytes"),
            Self::SizePerHour => format!("{:.1} MiB/h", value / MIB),
            Self::PerHour => format!("{value:.1}/h"),
            Self::Number => format!("{value:.2}"),
        }
    }
}

/// What stands before the unit of what grows each hour.
fn hourly(text: &str) -> Option<&str> {
    text.strip_suffix("/h").map(str::trim_end)
}

impl FromStr for Bound {
    type Err = BoundError;

    fn from_str(text: &str) -> Result<Self, BoundError> {
        let Some((name, order, value)) = Order::split(text) else {
            return Err(BoundError(format!(
                "'{text}' is not a condition: write one such as 'p99 > 10ms' or 'rate < 20k'"
            )));
        };
        let figure = Figure::named(name).ok_or_else(|| unknown(text, name))?;
        let unit = figure.unit();
        let value = unit.parse(value).ok_or_else(|| {
            BoundError(format!(
                "'{text}': '{value}' is no value of {name}; write one such as {}",
                unit.example()
            ))
        })?;
        Ok(Self { text: text.trim().to_owned(), figure, order, value })
    }
}

fn unknown(text: &str, name: &str) -> BoundError {
    let names = LATENCIES.iter().map(|(name, ..)| *name).chain(OTHERS.iter().map(|(name, ..)| *name));
    let names = names.chain(SLOPES.iter().map(|(name, ..)| *name));
    let names = names.collect::<Vec<_>>().join(", ");
    BoundError(format!(
        "'{text}' names no figure: there is no '{name}'; choose one of {names}, or service.p99, send_lag.p99 …"
    ))
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Bound {
    /// Judges the bound on `report`.
    #[must_use]
    pub fn judge(&self, report: &LoadReport) -> Judged {
        if let Figure::Slope(_, read) = self.figure
            && let Some(growth) = read(report)
            && self.order.holds(growth.low, self.value) != self.order.holds(growth.high, self.value)
        {
            return Judged::Undecided { growth, times_as_long: self.times_as_long(growth) };
        }
        match self.figure.read(report) {
            None => Judged::Absent,
            Some(value) if self.order.holds(value, self.value) => Judged::Holds(value),
            Some(value) => Judged::Fails(value),
        }
    }

    fn times_as_long(&self, growth: Growth) -> f64 {
        let away = self.value - growth.per_h;
        let half = if away >= 0.0 { growth.high - growth.per_h } else { growth.per_h - growth.low };
        half / away.abs()
    }

    /// Whether its figure counts requests that failed.
    #[must_use]
    pub fn is_on_errors(&self) -> bool {
        self.text.starts_with("error")
    }

    /// Requests that a window needs for the figure to be known.
    #[must_use]
    pub fn requests_needed(&self) -> u64 {
        match self.figure {
            Figure::Latency(_, Some(quantile), _) => stats::quantile::min_observations(quantile),
            _ => 1,
        }
    }

    /// The same bound on the service time instead of the response time; nothing if the bound is not on the response time.
    ///
    /// If the bound holds for the service time but not for the response time, the delay arose before the request left.
    #[must_use]
    pub fn of_service(&self) -> Option<Self> {
        match self.figure {
            Figure::Latency(Time::Response, quantile, read) => {
                Some(Self { figure: Figure::Latency(Time::Service, quantile, read), ..self.clone() })
            }
            _ => None,
        }
    }

    /// What the bound's figure is measured in.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.figure.unit()
    }

    /// A value of the bound's figure with its unit, for people.
    #[must_use]
    pub fn print(&self, value: f64) -> String {
        self.unit().print(value)
    }
}
