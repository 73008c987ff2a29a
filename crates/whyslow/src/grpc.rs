//! A call of gRPC from the command line: the message as bytes, from JSON by a `.proto` file or as it is.

use std::path::Path;

use anyhow::{Context, bail};
use load::session::enveloped;
use model::job::Request;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

/// Fields of every call. Source: gRPC over HTTP2, "Requests".
const FIELDS: [(&str, &str); 2] = [("Content-Type", "application/grpc"), ("TE", "trailers")];
/// How the name of a file ends whose bytes are a message.
const BYTES: &str = ".bin";

/// A call, ready to be sent.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    /// Whether exactly one message answers it: a description says that its method does not stream.
    pub(crate) one_message: bool,
}

/// The call of `method`, such as `shop.Orders/Get`.
pub(crate) fn call(method: &str, message: Option<&str>, proto: Option<&Path>) -> anyhow::Result<Call> {
    let path = method.trim_start_matches('/');
    let Some((service, name)) =
        path.split_once('/').filter(|(service, name)| is_name(service) && is_name(name))
    else {
        bail!("--grpc '{method}' is not SERVICE/METHOD: write it as in shop.Orders/Get");
    };
    let described = proto.map(|proto| described(proto, service, name)).transpose()?;
    let bytes = encoded(message, described.as_ref())?;
    let body = enveloped(&bytes).context("--message is longer than the 4 GiB that gRPC can send")?;
    let fields = FIELDS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let request = Request { method: "POST".to_owned(), target: Some(format!("/{path}")), fields, body };
    Ok(Call { request, one_message: described.is_some_and(|method| !method.is_server_streaming()) })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
}

fn encoded(message: Option<&str>, method: Option<&MethodDescriptor>) -> anyhow::Result<Vec<u8>> {
    let Some(message) = message else { return Ok(Vec::new()) };
    let (json, from) = match message.strip_prefix('@') {
        None => (message.to_owned(), "--message".to_owned()),
        Some(file) if file.ends_with(BYTES) => {
            return std::fs::read(file).with_context(|| format!("cannot read --message @{file}"));
        }
        Some(file) => {
            let text = std::fs::read_to_string(file);
            (text.with_context(|| format!("cannot read --message @{file}"))?, format!("--message @{file}"))
        }
    };
    let Some(method) = method else {
        bail!(
            "{from} is JSON, which only a description can turn into bytes: add --proto FILE, or give @FILE{BYTES}"
        );
    };
    let input = method.input();
    let wrong = || format!("{from} is no message of {}", input.full_name());
    let mut reader = serde_json::Deserializer::from_str(&json);
    let message = DynamicMessage::deserialize(input.clone(), &mut reader).with_context(wrong)?;
    reader.end().with_context(wrong)?;
    Ok(message.encode_to_vec())
}

/// What a `.proto` file says of a method.
fn described(proto: &Path, service: &str, name: &str) -> anyhow::Result<MethodDescriptor> {
    let unread = || format!("--proto {} cannot be used", proto.display());
    let folder = proto.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = protox::compile([proto], [folder]).map_err(one_line).with_context(unread)?;
    let pool = DescriptorPool::from_file_descriptor_set(files).with_context(unread)?;
    let listed = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let Some(service) = pool.get_service_by_name(service) else {
        let there = listed(pool.services().map(|service| service.full_name().to_owned()).collect());
        bail!("{} has no service '{service}': it has {there}", proto.display());
    };
    let Some(method) = service.methods().find(|method| method.name() == name) else {
        let there = listed(service.methods().map(|method| method.name().to_owned()).collect());
        bail!("{} has no method '{name}': it has {there}", service.full_name());
    };
    if method.is_client_streaming() {
        bail!(
            "{} takes a stream of messages: only methods that take one message can be called",
            method.full_name()
        );
    }
    Ok(method)
}

/// An error of several lines as one, with where it is: only its debug form has the line.
fn one_line(error: protox::Error) -> anyhow::Error {
    let text = format!("{error:?}");
    let place = error
        .file()
        .filter(|file| !text.contains(file))
        .map_or_else(String::new, |file| format!(" ({file})"));
    anyhow::anyhow!("{}{place}", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_one_sentence() {
        let folder = std::env::temp_dir().join(format!("whyslow-proto-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let good = file(
            "shop.proto",
            "syntax = \"proto3\"; package shop; message Item { int32 id = 1; string name = 2; } message Many {}
             service Orders { rpc Get(Item) returns (Item); rpc Put(stream Item) returns (Many); rpc All(Item) returns (stream Item); }",
        );
        let bad = file("bad.proto", "syntax = \"proto3\";\nmessage {");
        let import = file("import.proto", "syntax = \"proto3\"; import \"nowhere.proto\";");
        let sent = call("/shop.Orders/Get", Some(r#"{"id": 7, "name": "x"}"#), Some(&good)).unwrap();
        assert_eq!(sent.request.target.as_deref(), Some("/shop.Orders/Get"));
        assert_eq!(sent.request.body, [0, 0, 0, 0, 5, 8, 7, 0x12, 1, b'x']);
        assert_eq!(call("a.B/C", None, None).unwrap().request.body, [0; 5]);
        for (method, proto, one) in [
            ("shop.Orders/Get", Some(&good), true),
            ("shop.Orders/All", Some(&good), false),
            ("shop.Orders/Get", None, false),
        ] {
            let call = call(method, None, proto.map(|proto| proto.as_path())).unwrap();
            assert_eq!(call.one_message, one, "{method}, {proto:?}");
        }
        for (method, message, proto, complaint) in [
            ("shop.Orders", None, None, "is not SERVICE/METHOD"),
            ("shop.Orders/Get/", None, None, "is not SERVICE/METHOD"),
            ("shop.Orders/Get", Some("{}"), None, "add --proto FILE"),
            ("shop.Orders/Get", Some("{"), Some(&good), "is no message of shop.Item"),
            ("shop.Orders/Get", Some("{} {}"), Some(&good), "is no message of shop.Item"),
            ("shop.Orders/Get", Some(r#"{"nam": 1}"#), Some(&good), "nam"),
            ("shop.Orders/Get", Some("@/nowhere.bin"), Some(&good), "cannot read --message @/nowhere.bin"),
            ("shop.Order/Get", None, Some(&good), "has no service 'shop.Order': it has shop.Orders"),
            ("shop.Orders/Gett", None, Some(&good), "has no method 'Gett': it has Get, Put, All"),
            ("shop.Orders/Put", None, Some(&good), "takes a stream of messages"),
            ("shop.Orders/Get", None, Some(&bad), "bad.proto cannot be used: bad.proto:2:9: "),
            ("shop.Orders/Get", None, Some(&import), "nowhere.proto"),
            ("shop.Orders/Get", None, Some(&folder.join("none.proto")), "none.proto cannot be used"),
        ] {
            let text =
                format!("{:#}", call(method, message, proto.map(|proto| proto.as_path())).unwrap_err());
            assert!(text.contains(complaint) && !text.contains('\n'), "{method}: {text}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
