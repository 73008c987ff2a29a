//! A Redis of one test's own, which ends with it, or with this process.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use straightline::kit::redis::{Client, Config, Error};

/// Longest time for the server to start.
const START_TIME: Duration = Duration::from_secs(60);

pub(crate) struct Instance {
    pub(crate) port: u16,
    /// Its standard input is the server's life line.
    child: Child,
}

/// Whether there is a Redis; says that a test was skipped where there is none.
pub(crate) fn is_installed() -> bool {
    let installed = Command::new("redis-server").arg("--version").output().is_ok();
    if !installed {
        testkit::skipped("Redis is not installed (apt-get install redis-server)");
    }
    installed
}

impl Instance {
    pub(crate) fn start(words: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_at(port, words)
    }

    pub(crate) fn start_at(port: u16, words: &[&str]) -> Self {
        let script =
            "\"$0\" \"$@\" >/dev/null 2>&1 & server=$!; cat >/dev/null; kill -KILL $server; wait $server";
        let mut command = Command::new("sh");
        command.args(["-c", script, "redis-server", "--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]).args(words).current_dir(std::env::temp_dir());
        // A signal to the tests' group, Ctrl-C say, is not the server's.
        let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        let instance = Self { port, child };
        let start = Instant::now();
        while let Err(error) = Client::connect(&instance.config("")) {
            if matches!(error, Error::Refused(_)) {
                break;
            }
            assert!(start.elapsed() < START_TIME, "{error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        instance
    }

    /// How `login` gets in; it is nothing, or `USER:PASSWORD@`.
    pub(crate) fn config(&self, login: &str) -> Config {
        format!("redis://{login}127.0.0.1:{}", self.port).parse().unwrap()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
