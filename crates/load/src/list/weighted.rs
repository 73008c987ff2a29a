use crate::Request;

/// One line of a weighted list.
pub(super) fn entry(line: &str, template: &Request) -> Result<(f64, Request), String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let weight = match words.first().and_then(|word| word.parse::<f64>().ok()) {
        Some(weight) => {
            words.remove(0);
            weight
        }
        None => 1.0,
    };
    if !(weight.is_finite() && weight >= 0.0) {
        return Err("its weight is not a number from 0 on".to_owned());
    }
    let (method, path) = match words[..] {
        [path] => (None, path),
        [method, path] => (Some(method), path),
        _ => {
            return Err("it is not '[WEIGHT] [METHOD] PATH' (the log of a server is for --replay)".to_owned());
        }
    };
    Ok((weight, asking(template, method, path)?))
}

/// The template with another method and path.
pub(super) fn asking(template: &Request, method: Option<&str>, path: &str) -> Result<Request, String> {
    let method = method.unwrap_or(&template.method);
    let carries = method == template.method || matches!(method, "POST" | "PUT" | "PATCH");
    Ok(Request {
        method: method.to_owned(),
        path: local(template, path)?.to_owned(),
        headers: template.headers.clone(),
        body: if carries { template.body.clone() } else { Vec::new() },
    })
}

/// The path of a URL, which must be of the template's host: one run drives one server.
fn local<'a>(template: &Request, path: &'a str) -> Result<&'a str, String> {
    if path.starts_with('/') || path == "*" {
        return Ok(path);
    }
    let Some((_, rest)) = path.split_once("://") else {
        return Err(format!("'{path}' is not a path: it must begin with '/'"));
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = template.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    match host {
        Some((_, host)) if host == authority => Ok(if path.is_empty() { "/" } else { path }),
        _ => Err(format!("it is of another server ({authority}): one run drives one server")),
    }
}
