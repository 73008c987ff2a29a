//! Tells whether the charts were built (`web/dist`), so that a build without Node still gives a page.

use std::path::Path;

fn main() {
    let dist = Path::new("../../web/dist");
    println!("cargo::rustc-check-cfg=cfg(charts)");
    // What is not there counts as changed each time.
    println!("cargo::rerun-if-changed={}", if dist.exists() { "../../web/dist" } else { "../../web" });
    if dist.join("report.js").exists() && dist.join("report.css").exists() {
        println!("cargo::rustc-cfg=charts");
    }
}
