//! Files of a load: histograms, series, and figures for programs that keep them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use load::{Outcome as Measured, export};

use crate::cli::LoadArgs;

/// Writes everything that was asked for; a file is whole or absent.
pub(super) fn keep(args: &LoadArgs, started: SystemTime, measured: &Measured) -> anyhow::Result<()> {
    let report = &measured.report;
    write(args.hlog.as_ref(), || hlog(started, measured))?;
    write(args.hgrm.as_ref(), || export::hgrm(&measured.response))?;
    write(args.keep.csv.as_ref(), || report::load_csv(report))?;
    write(args.keep.prometheus.as_ref(), || report::load_prometheus(report))?;
    write(args.keep.otlp.as_ref(), || report::load_otlp(report, unix_ns(SystemTime::now())))?;
    Ok(())
}

fn write(file: Option<&PathBuf>, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    match file {
        Some(file) => Ok(record::write_atomically(file, text().as_bytes())?),
        None => Ok(()),
    }
}

fn hlog(started: SystemTime, measured: &Measured) -> String {
    let length = Duration::from_nanos(measured.report.window_ns);
    let interval = |latencies, tag| export::Interval { latencies, tag, begin: Duration::ZERO, length };
    let mut intervals = vec![interval(&measured.response, None)];
    intervals.extend(measured.service.as_ref().map(|service| interval(service, Some("service"))));
    intervals.extend(measured.send_lag.as_ref().map(|lag| interval(lag, Some("send_lag"))));
    export::hlog(started, &intervals)
}

fn unix_ns(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
