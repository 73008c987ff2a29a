//! Connections that a server keeps for a while and closes as it likes: what was on its way then is sent again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, Target, run};
use model::record::LoadReport;

use crate::serving::{self, Manner};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Requests of one run.
const REQUESTS: u64 = 200;

fn load(address: SocketAddr, change: impl FnOnce(&mut Config)) -> LoadReport {
    let mut config = Config::new(Target::resolve(&format!("http://{address}/")).unwrap());
    config.threads = 1;
    config.connections = 1;
    config.requests = Some(REQUESTS);
    config.window = Duration::from_secs(60);
    change(&mut config);
    run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report
}

/// Answers the first `answers` requests of a connection, reads the next one and closes without a word.
fn hangs_up_after(answers: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buf = [0; 4096];
                for _ in 0..answers {
                    if stream.read(&mut buf).unwrap_or(0) == 0 || stream.write_all(OK).is_err() {
                        return;
                    }
                }
                let _ = stream.read(&mut buf);
            });
        }
    });
    address
}

fn is_said(report: &LoadReport) -> bool {
    report.warnings.iter().any(|warning| warning.id == "resent")
}

#[test]
fn a_request_that_meets_the_close_of_a_kept_connection_is_sent_again_and_said() {
    for pace in [Pace::Closed, Pace::open(2_000.0, Arrival::Constant)] {
        let report = load(hangs_up_after(1), |config| config.pace = pace.clone());
        // All but the first are lost once, and answered as the first on the next connection.
        assert_eq!(
            (report.requests, report.errors.total(), report.resent),
            (REQUESTS, 0, REQUESTS - 1),
            "{pace:?}"
        );
        assert!(is_said(&report), "{:?}", report.warnings);
    }
}

#[test]
fn what_is_not_safe_to_repeat_is_not_sent_again() {
    let report = load(hangs_up_after(1), |config| {
        config.request.method = "POST".to_owned();
    });
    assert_eq!((report.requests, report.errors.read, report.resent), (REQUESTS / 2, REQUESTS / 2, 0));
    assert!(!is_said(&report), "{:?}", report.warnings);
}

#[test]
fn a_server_that_answers_nobody_is_not_asked_again() {
    let report = load(hangs_up_after(0), |_| {});
    // On a machine with others to serve, the first connections may have waited for their requests.
    assert!(report.resent <= 1 && report.errors.read >= REQUESTS - 1, "{report:?}");
}

#[test]
fn a_server_that_closes_after_each_answer_without_a_word_costs_no_request() {
    let manner = Manner { close_after: Some(1), ..Manner::body(13) };
    let (address, _) = serving::tcp("127.0.0.1", manner);
    let report = load(address, |config| config.connections = 8);
    assert_eq!((report.requests, report.errors.total()), (REQUESTS, 0), "{:?}", report.warnings);
}

/// Where Debian keeps the modules of Apache.
const MODULES: &str = "/usr/lib/apache2/modules";

/// Apache with its event MPM and few workers, until the end of the test.
struct Apache {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl Apache {
    /// `None` where something that it needs is missing.
    fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("apache-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = folder.join("httpd.conf");
        let text = format!(
            "ServerRoot \"{root}\"\nPidFile pid\nErrorLog log\nServerName localhost\nListen {address}\n\
             LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
             LoadModule alias_module {MODULES}/mod_alias.so\n\
             User www-data\nStartServers 1\nServerLimit 1\nThreadLimit 4\nThreadsPerChild 4\n\
             MaxRequestWorkers 4\nKeepAlive On\nMaxKeepAliveRequests 0\nRedirect 204 /\n",
            root = folder.display()
        );
        std::fs::write(&config, text).unwrap();
        // It ends with us, however we end.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "apache2", "-D", "FOREGROUND", "-f"]).arg(&config);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        while std::net::TcpStream::connect(address).is_err() {
            if process.try_wait().unwrap().is_some() {
                let _ = std::fs::remove_dir_all(&folder);
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Self { process, folder, address })
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn apache_that_is_short_of_workers_loses_no_request() {
    let Some(apache) = Apache::start() else {
        return testkit::skipped("no apache2 with its event MPM, or no setpriv");
    };
    let report = load(apache.address, |config| {
        config.connections = 64;
        config.requests = Some(5_000);
    });
    assert_eq!((report.requests, report.errors.total()), (5_000, 0), "{:?}", report.warnings);
    assert!(report.resent > 0 && is_said(&report), "{} of 5000", report.resent);
}
