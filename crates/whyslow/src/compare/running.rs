//! Servers that run already: where they are, and whose CPU time is theirs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, bail};
use model::plan::{Arm, ArmSource, Expect, Running, Watched};
use model::record::without_secrets;
use observe::Group;

use super::command_arm;
use crate::cli::CompareArgs;

/// Port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// The arm that `url` is, and its path where it has one.
pub(super) fn arm(name: &str, url: &str, expect: &Expect) -> anyhow::Result<(Arm, Option<String>)> {
    if let Some(instead) = instead_of(url) {
        bail!("'{}' is not the address of a running server: {instead}", without_secrets(url));
    }
    let (address, path) = place(url)?;
    let source = ArmSource::Running(Running { address, watched: Watched::Listener });
    // The name is checked as any other; there is no command.
    let arm = Arm { source, run: Vec::new(), ..command_arm(name, "-", false, expect)? };
    Ok((arm, path))
}

/// The address of a server on this machine, and the path where the URL has one.
pub(crate) fn place(url: &str) -> anyhow::Result<(SocketAddr, Option<String>)> {
    let shown = without_secrets(url);
    let Some(rest) = url.strip_prefix("http://") else {
        bail!("'{shown}' is not the address of a running server: write http://127.0.0.1:PORT/PATH");
    };
    let (place, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if place.contains('@') {
        bail!(
            "'{shown}' has a user's name before its host: leave it out, and give -H 'Authorization: Basic ...'"
        );
    }
    let address = address(place).with_context(|| {
        format!("'{place}' in '{shown}' is not an address: write one such as 127.0.0.1:8080")
    })?;
    if !address.ip().is_loopback() {
        bail!(
            "'{shown}' is not on this machine: whyslow asks addresses of the loopback interface only, such as 127.0.0.1"
        );
    }
    Ok((address, Some(path.to_owned()).filter(|path| !path.is_empty())))
}

/// What to write in the place of a URL with another scheme: flags say what is spoken, for all arms alike.
fn instead_of(url: &str) -> Option<&'static str> {
    Some(match url.split_once("://")?.0 {
        "ws" => "write http://127.0.0.1:PORT/PATH and add --ws",
        "wss" => "write http://127.0.0.1:PORT/PATH and add --ws and, for TLS, --insecure or --cacert FILE",
        "grpc" => "write http://127.0.0.1:PORT and add --grpc SERVICE/METHOD",
        "grpcs" => {
            "write http://127.0.0.1:PORT and add --grpc SERVICE/METHOD and, for TLS, --insecure or --cacert FILE"
        }
        "https" => "write http://127.0.0.1:PORT/PATH and add, for TLS, --insecure or --cacert FILE",
        _ => return None,
    })
}

fn address(place: &str) -> Option<SocketAddr> {
    if let Ok(address) = place.parse() {
        return Some(address);
    }
    let bare = place.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if let Ok(ip) = bare {
        return Some(SocketAddr::new(ip, HTTP_PORT));
    }
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (place, HTTP_PORT),
    };
    // Names are not looked up: what they mean may be elsewhere.
    host.eq_ignore_ascii_case("localhost").then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Has the arms that run already watched as the flags say.
pub(super) fn watch(arms: &mut [Arm], args: &CompareArgs) -> anyhow::Result<()> {
    for words in &args.watch_pid {
        let (arm, pid) = running_arm(arms, "--watch-pid", words)?;
        let pid: u32 =
            pid.parse().with_context(|| format!("--watch-pid '{pid}' is not the number of a process"))?;
        Group::from_pid(pid)?;
        arm.watched = Watched::Process { pid };
    }
    for words in &args.watch_unit {
        let (arm, name) = running_arm(arms, "--watch-unit", words)?;
        Group::of_unit(name)?;
        arm.watched = Watched::Unit { name: name.to_owned() };
    }
    if args.confirm
        && let Some(arm) = arms.iter().find(|arm| arm.source.running().is_some())
    {
        bail!(
            "--confirm starts every arm anew, with a change: '{}' runs already, give its command instead",
            arm.name
        );
    }
    Ok(())
}

/// The arm that `words` of a flag names, or the only one that runs already, and the note about it.
fn running_arm<'a, 'b>(
    arms: &'a mut [Arm],
    flag: &str,
    words: &'b str,
) -> anyhow::Result<(&'a mut Running, &'b str)> {
    let (name, what) = words.split_once('=').map_or((None, words), |(name, what)| (Some(name), what));
    let mut found = arms.iter_mut().filter(|arm| name.is_none_or(|name| arm.name == name)).filter_map(
        |arm| match &mut arm.source {
            ArmSource::Running(running) => Some(running),
            _ => None,
        },
    );
    match (found.next(), found.next()) {
        (Some(running), None) => Ok((running, what)),
        (Some(_), Some(_)) => bail!("{flag} {what}: several arms run already, write {flag} NAME={what}"),
        (None, _) => {
            bail!("{flag} '{words}' is for an arm that runs already: write one as NAME=http://127.0.0.1:PORT")
        }
    }
}
