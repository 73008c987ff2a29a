//! Messages of sock_diag. Source: sock_diag(7); Linux, include/uapi/linux/{netlink,inet_diag,tcp}.h.

use model::record::SocketCounters;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST | NLM_F_DUMP.
const REQUEST_DUMP: u16 = 0x301;
const IPPROTO_TCP: u8 = 6;
/// Bits of INET_DIAG_INFO and INET_DIAG_SKMEMINFO among the extensions asked for, and their numbers among the attributes.
const WANTED: u8 = 1 << 1 | 1 << 6;
const INFO: u16 = 2;
const MEMORY: u16 = 7;
/// Where the second of these has how often something was dropped. Source: Linux, include/uapi/linux/sock_diag.h, SK_MEMINFO_DROPS.
const DROPS_AT: usize = 8 * 4;
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// Bytes of `inet_diag_msg` before the attributes.
const MESSAGE_BYTES: usize = 72;

/// A listening or established socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiagSocket {
    pub(crate) listening: bool,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// Names a socket for its life.
    pub(crate) cookie: u64,
    pub(crate) inode: u32,
    /// Of a listener: connections that wait, and how many may.
    pub(crate) queue: u32,
    pub(crate) backlog: u32,
    /// Of a listener: connections that were turned away since it began; absent before Linux 4.8.
    pub(crate) dropped: Option<u64>,
    /// Of a connection, since it began.
    pub(crate) counters: SocketCounters,
}

/// Asks for all listening and established TCP sockets of an address family.
pub(crate) fn diag_request(family: u8) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let states = 1_u32 << ESTABLISHED | 1_u32 << LISTEN;
    bytes[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes[HEADER_BYTES..HEADER_BYTES + 3].copy_from_slice(&[family, IPPROTO_TCP, WANTED]);
    bytes[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&states.to_ne_bytes());
    bytes
}

/// Adds the sockets of one datagram; whether more datagrams follow, or nothing where the kernel refused.
pub(crate) fn diag_replies(mut bytes: &[u8], sockets: &mut Vec<DiagSocket>) -> Option<bool> {
    while !bytes.is_empty() {
        let length = usize::try_from(word32(bytes, 0)?).ok()?;
        let body = bytes.get(HEADER_BYTES..length)?;
        match u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?) {
            NLMSG_DONE => return Some(false),
            NLMSG_ERROR => return None,
            SOCK_DIAG_BY_FAMILY => sockets.push(socket(body)?),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(true)
}

fn socket(body: &[u8]) -> Option<DiagSocket> {
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let listening = *body.get(1)? == LISTEN;
    let (queue, backlog) = (word32(body, 56)?, word32(body, 60)?);
    let attributes = body.get(MESSAGE_BYTES..)?;
    let dropped = attribute(attributes, MEMORY).and_then(|memory| word32(memory, DROPS_AT));
    Some(DiagSocket {
        listening,
        local_port: port(4)?,
        remote_port: port(6)?,
        cookie: u64::from(word32(body, 44)?) | u64::from(word32(body, 48)?) << 32,
        inode: word32(body, 68)?,
        queue: if listening { queue } else { 0 },
        backlog: if listening { backlog } else { 0 },
        dropped: dropped.filter(|_| listening).map(u64::from),
        counters: attribute(attributes, INFO).map(tcp_info).unwrap_or_default(),
    })
}

fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// `struct tcp_info`; what an old kernel does not have yet is 0.
fn tcp_info(info: &[u8]) -> SocketCounters {
    let small = |at: usize| u64::from(word32(info, at).unwrap_or(0));
    let large = |at: usize| small(at) | small(at + 4) << 32;
    SocketCounters {
        connections: 1,
        retransmits: small(100),
        bytes_out: large(120),
        bytes_in: large(128),
        segments_out: small(136),
        segments_in: small(140),
        data_segments_in: small(152),
        data_segments_out: small(156),
        busy_us: large(168),
        receive_window_limited_us: large(176),
        send_buffer_limited_us: large(184),
    }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
