//! Tells whether the charts were built (`make web`), so that a build without Node still gives a page.

use std::path::Path;

fn main() {
    let charts = Path::new("charts");
    println!("cargo::rustc-check-cfg=cfg(charts)");
    // What is not there counts as changed each time.
    println!("cargo::rerun-if-changed={}", if charts.exists() { "charts" } else { "." });
    if charts.join("report.js").exists() && charts.join("report.css").exists() {
        println!("cargo::rustc-cfg=charts");
    }
}
