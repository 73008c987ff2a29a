//! A PostgreSQL of this process's own, which ends with it.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use straightline::kit::postgres::{Client, Config};
use straightline::rustls::pki_types::CertificateDer;

/// Longest time for the server to start: on a busy machine `initdb` alone takes seconds.
const START_TIME: Duration = Duration::from_secs(60);

/// A server with a few roles, each of which logs in in its own way.
pub(crate) struct Cluster {
    pub(crate) port: u16,
    pub(crate) certificate: CertificateDer<'static>,
    /// Keeps the server's life line open.
    _child: Child,
}

static CLUSTER: LazyLock<Option<Cluster>> =
    LazyLock::new(|| programs().map(|folder| Cluster::start(&folder)));

/// Runs `test` with the server; says that it was skipped where PostgreSQL is not installed.
pub(crate) fn with_server(test: impl FnOnce(&Cluster)) {
    match &*CLUSTER {
        Some(cluster) => test(cluster),
        None => testkit::skipped("PostgreSQL is not installed (apt-get install postgresql)"),
    }
}

/// The folder of the newest PostgreSQL that Debian installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> =
        versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).collect();
    folders.retain(|folder| folder.join("initdb").exists());
    folders.sort();
    folders.pop()
}

/// The user that the server runs as: it refuses to be root.
fn unprivileged() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let of = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().unwrap());
        Some((fields.next()?, fields.next()?))
    };
    of("postgres").or_else(|| of("nobody"))
}

fn as_user(mut command: Command) -> Command {
    if let Some((user, group)) = unprivileged() {
        command.uid(user).gid(group);
    }
    command
}

const SETTINGS: &str = "
ssl = on
fsync = off
max_connections = 60
listen_addresses = '127.0.0.1'
";

const LOGINS: &str = "
host all trusted 127.0.0.1/32 trust
host all few 127.0.0.1/32 trust
host all by_md5 127.0.0.1/32 md5
host all by_scram 127.0.0.1/32 scram-sha-256
host all by_word 127.0.0.1/32 password
";

const ROLES: &str = "
set password_encryption = 'md5'; create role by_md5 login password 'pass word';
set password_encryption = 'scram-sha-256'; create role by_scram login password 'pass word';
create role by_word login password 'pass word';
create role few login connection limit 1;
";

impl Cluster {
    fn start(programs: &Path) -> Self {
        let folder = std::env::temp_dir().join(format!("straightline-postgres-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir(&folder).unwrap();
        let data = folder.join("data");
        own(&folder);
        let mut init = as_user(Command::new(programs.join("initdb")));
        init.args(["-U", "trusted", "-E", "UTF8", "--no-locale", "-N", "-D"]).arg(&data).current_dir(&folder);
        let made = init.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (name, text) in [("server.crt", cert.pem()), ("server.key", signing_key.serialize_pem())] {
            fs::write(data.join(name), text).unwrap();
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600)).unwrap();
            own(&data.join(name));
        }
        fs::write(data.join("pg_hba.conf"), LOGINS).unwrap();
        let settings = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"));
        settings.unwrap().write_all(SETTINGS.as_bytes()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Its standard input ends with this process, however that ends.
        let script = "\"$0\" -k \"$1\" -D \"$1/data\" -p \"$2\" >\"$1/log\" 2>&1 & server=$!; cat >/dev/null; \
            kill -INT $server; wait $server; cd /; rm -rf \"$1\"";
        let mut server = as_user(Command::new("sh"));
        server.args(["-c", script]).arg(programs.join("postgres")).arg(&folder).arg(port.to_string());
        server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(&folder);
        // A signal to the tests' group, Ctrl-C say, is not the server's.
        let child = server.process_group(0).spawn().unwrap();
        let cluster = Self { port, certificate: cert.der().clone(), _child: child };
        cluster.prepare(&folder);
        cluster
    }

    /// Waits for the server, and makes its roles.
    fn prepare(&self, folder: &Path) {
        let start = Instant::now();
        let mut client = loop {
            match Client::connect(self.config("trusted", "sslmode=disable")) {
                Ok(client) => break client,
                Err(error) => {
                    let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                    assert!(start.elapsed() < START_TIME, "{error}: {log}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        };
        client.batch(ROLES).unwrap();
    }

    /// How `login` gets in; it is `USER` or `USER:PASSWORD`.
    pub(crate) fn config(&self, login: &str, options: &str) -> Config {
        format!("postgres://{login}@localhost:{}/postgres?{options}", self.port).parse().unwrap()
    }

    /// How one gets into another database.
    pub(crate) fn config_of(&self, database: &str) -> Config {
        let port = self.port;
        format!("postgres://trusted@localhost:{port}/{database}?sslmode=disable").parse().unwrap()
    }

    pub(crate) fn connect(&self) -> Client<'static> {
        Client::connect(self.config("trusted", "sslmode=disable")).unwrap()
    }
}

/// Gives a file to the user that the server runs as.
fn own(path: &Path) {
    if let Some((user, group)) = unprivileged() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}
