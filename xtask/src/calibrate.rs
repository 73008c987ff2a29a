//! Calibration.
/// Arguments.
#[derive(clap::Args)]
pub struct Args {}
/// Runs.
pub fn run(_: &Args) -> anyhow::Result<()> {
    Ok(())
}
