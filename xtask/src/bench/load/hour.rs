//! Whether the memory of a long load stays what it was.

use std::time::{Duration, Instant};

use stats::descriptive;
use stats::special::student_within;

use super::bar::Bar;
use super::tool::{Load, Ran, Tool, kib_of};
use super::{Bench, bar, page};

/// Time between two looks at the memory, at most; a short run is looked at ten times.
const EVERY_S: f64 = 10.0;
/// Growth that counts as none: the series second by second takes 0.3 MiB an hour, and nothing else may grow.
const FLAT_MIB_PER_H: f64 = 1.0;
/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;
/// Level of the interval.
const LEVEL: f64 = 0.95;

/// The memory so many seconds after the begin.
type Look = (f64, f64);

/// How memory moved.
struct Slope {
    mib_per_h: f64,
    /// Half of its interval's width.
    half: f64,
}

/// 50 000 requests/s for `seconds`, and the memory of the generator in the meantime.
pub(super) fn run(bench: &mut Bench, seconds: u32) -> anyhow::Result<String> {
    bench.server.let_cpus_idle();
    let load = Load { rate: Some(50_000), ..Load::closed(seconds) };
    let every = Duration::from_secs_f64((f64::from(seconds) / 10.0).min(EVERY_S));
    let (begin, mut looks) = (Instant::now(), Vec::new());
    let address = bench.server.address.to_string();
    let ran = Tool::Whyslow.run_watched(&load, &address, &bench.cpus.load, every, &mut |pid| {
        // The first look finds the program before it has begun.
        if begin.elapsed() >= every {
            looks.push((begin.elapsed().as_secs_f64(), kib_of(pid, "VmRSS:") as f64 / 1024.0));
        }
    })?;
    Ok(section(seconds, &looks, &ran))
}

fn section(seconds: u32, looks: &[Look], ran: &Ran) -> String {
    let mib: Vec<f64> = looks.iter().map(|(_, mib)| *mib).collect();
    let slope = slope(looks);
    let row = vec![
        looks.len().to_string(),
        page::figure(mib.first().copied(), 2),
        page::figure(mib.last().copied(), 2),
        page::figure(descriptive::quantile(&mib, 1.0), 2),
        slope.as_ref().map_or("–".to_owned(), |slope| {
            let Slope { mib_per_h, half } = slope;
            format!("{mib_per_h:.3} [{:.3}, {:.3}]", mib_per_h - half, mib_per_h + half)
        }),
    ];
    let bars = [
        Bar::at_least("schedule kept (rate ratio)", 0.99, ran.rate_ratio),
        Bar::at_most(
            "RSS flat: the upper end of its slope, MiB/h",
            FLAT_MIB_PER_H,
            slope.map(|slope| slope.mib_per_h + slope.half),
        ),
    ];
    format!(
        "## 50 000 requests/s for {seconds} s\n\nn = 1 run, {:.0} requests/s, {}; {}. The slope is that of least squares, with its 95 % \
         interval.\n\n{}\n{}\n",
        ran.per_s,
        page::today(),
        Tool::Whyslow.version(),
        page::table(&["looks", "first MiB", "last MiB", "largest MiB", "slope MiB/h"], &[row]),
        bar::table(&bars)
    )
}

/// The line of least squares through the looks; nothing where there are too few for an interval.
///
/// Source: Draper and Smith, "Applied Regression Analysis", 3rd edition, sections 1.2 and 1.4.
fn slope(looks: &[Look]) -> Option<Slope> {
    let freedom = u32::try_from(looks.len()).ok()?.checked_sub(2).filter(|freedom| *freedom > 0)?;
    let n = looks.len() as f64;
    let mean = |of: fn(&Look) -> f64| looks.iter().map(of).sum::<f64>() / n;
    let (at, mib) = (mean(|look| look.0), mean(|look| look.1));
    let spread: f64 = looks.iter().map(|look| (look.0 - at).powi(2)).sum();
    let slope = looks.iter().map(|look| (look.0 - at) * (look.1 - mib)).sum::<f64>() / spread;
    let off: f64 = looks.iter().map(|look| (look.1 - mib - slope * (look.0 - at)).powi(2)).sum();
    let half = student_within(LEVEL, freedom) * (off / f64::from(freedom) / spread).sqrt();
    Some(Slope { mib_per_h: slope * HOUR_S, half: half * HOUR_S })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_known_by_hand_has_its_interval() {
        // 10 MiB and 1 MiB more each hour, and so far off that.
        let line = |off: [f64; 4]| -> Vec<Look> {
            (0..4).map(|x| (f64::from(x) * HOUR_S, 10.0 + f64::from(x) + off[x as usize])).collect()
        };
        let exact = slope(&line([0.0; 4])).unwrap();
        assert!((exact.mib_per_h - 1.0).abs() < 1e-9 && exact.half < 1e-6);
        // Deviations 1, −1, −1, 1 are even about the middle: the slope stays, their squares sum to 4, those of x to 5.
        let noisy = slope(&line([1.0, -1.0, -1.0, 1.0])).unwrap();
        assert!((noisy.mib_per_h - 1.0).abs() < 1e-9, "{}", noisy.mib_per_h);
        // t(0.95, 2) = 4.3027, times sqrt(4 / 2 / 5).
        assert!((noisy.half - 4.3027 * 0.4_f64.sqrt()).abs() < 1e-3, "{}", noisy.half);
        assert!(slope(&line([0.0; 4])[..2]).is_none());
    }
}
