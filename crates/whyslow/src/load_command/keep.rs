//! Files of a load: histograms, series, and figures for programs that keep them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use load::export::{Interval, hlog_line};
use load::{Event, Latencies, Outcome as Measured, export, latencies};

use crate::cli::{FigureArgs, LoadArgs};

/// Whether the files that were asked for can be written, before anything is sent.
pub(super) fn check(args: &LoadArgs) -> anyhow::Result<()> {
    let figures = &args.figures;
    let otlp = figures.otlp.as_ref().filter(|_| !figures.sends_otlp());
    let files = [&args.hlog, &figures.hgrm, &figures.csv, &figures.prometheus].map(Option::as_ref);
    files.into_iter().chain([otlp]).flatten().try_for_each(|file| Ok(model::record::can_write(file)?))
}

/// Writes everything that was asked for; a file is whole or absent.
///
/// `told` says that a receiver is known not to take figures.
pub(super) fn keep(
    args: &LoadArgs,
    seconds: &Seconds,
    measured: &Measured,
    told: bool,
) -> anyhow::Result<()> {
    write(args.hlog.as_ref(), || load::hlog(measured, &seconds.lines))?;
    keep_or_send(&args.figures, measured, told)
}

/// Writes the files of figures that were asked for.
pub(crate) fn keep_figures(files: &FigureArgs, measured: &Measured) -> anyhow::Result<()> {
    keep_or_send(files, measured, false)
}

fn keep_or_send(files: &FigureArgs, measured: &Measured, told: bool) -> anyhow::Result<()> {
    let report = &measured.report;
    write(files.hgrm.as_ref(), || export::hgrm(&measured.response))?;
    write(files.csv.as_ref(), || report::load_csv(report))?;
    write(files.prometheus.as_ref(), || report::load_prometheus(report))?;
    let otlp = || report::load_otlp(report, unix_ns(SystemTime::now()));
    match files.otlp_receiver()? {
        None => write(files.otlp.as_ref(), otlp),
        Some(collector) => {
            // What was measured is worth more than who hears of it.
            if let Err(error) = collector.post(otlp().as_bytes())
                && !told
            {
                collector.complain(&error);
            }
            Ok(())
        }
    }
}

fn write(file: Option<&PathBuf>, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    match file {
        Some(file) => Ok(model::record::write_atomically(file, text().as_bytes())?),
        None => Ok(()),
    }
}

/// The responses second by second for `--hlog`, encoded as they come: an hour of histograms would take a gigabyte.
#[derive(Default)]
pub(super) struct Seconds {
    wanted: bool,
    lines: Vec<String>,
    /// When the first window began, on the monotonic clock.
    first_ns: Option<u64>,
    /// When this one did, after the first.
    begin: Duration,
    /// Its last second so far, not encoded yet: what was unanswered at its end is added to it.
    last: Option<(Duration, Latencies)>,
    /// All that this window had so far.
    sum: Option<Latencies>,
}

impl Seconds {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Takes in what happens.
    pub(super) fn follow(&mut self, event: &Event) {
        match event {
            _ if !self.wanted => {}
            Event::WindowStart { at_ns, .. } => {
                self.begin = Duration::from_nanos(at_ns - *self.first_ns.get_or_insert(*at_ns));
                self.sum = Some(latencies());
            }
            Event::Second { index, response, .. } => {
                let begin = self.begin + Duration::from_secs(u64::from(*index));
                self.end_second(begin);
                add(self.sum.as_mut(), response);
                self.last = Some((begin, (*response).clone()));
            }
            _ => {}
        }
    }

    /// Ends the window that brought `measured`. Requests that were unanswered then are in no second but in its whole:
    /// they are logged with the last, so that the log adds up to what is reported.
    pub(super) fn end_window(&mut self, measured: &Measured) {
        if let (Some(sum), Some((_, last))) = (self.sum.take(), &mut self.last) {
            let mut rest = measured.response.clone();
            rest.subtract(&sum).expect("the whole has every second");
            add(Some(last), &rest);
        }
        self.end_second(self.begin + Duration::from_nanos(measured.report.window_ns));
    }

    fn end_second(&mut self, end: Duration) {
        if let Some((begin, latencies)) = self.last.take() {
            let length = end.saturating_sub(begin);
            self.lines.push(hlog_line(&Interval { latencies: &latencies, tag: None, begin, length }));
        }
    }
}

fn add(sum: Option<&mut Latencies>, more: &Latencies) {
    if let Some(sum) = sum {
        load::add_latencies(sum, more);
    }
}

fn unix_ns(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
