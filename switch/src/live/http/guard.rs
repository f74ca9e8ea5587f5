//! Refusal of requests that another site made a browser send, and restrictions on the use of responses: for the page
//! and the metrics.
//!
//! Neither has a password: any client that reaches the address can read it. A browser on the same machine does so for
//! any page that it shows. A foreign page whose name resolves to this address (DNS rebinding) would have the same
//! origin; its requests have that name in `Host`, so names other than `localhost` are refused. Other pages are of
//! another site, which browsers report (`Sec-Fetch-Site`, Fetch Metadata Request Headers, W3C; older ones only by the
//! `Origin` of what their scripts request, Fetch, WHATWG).

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Version};

use super::{Answer, Asked, text, with};

/// Scripts and styles of this server only, and no text that becomes markup or code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The response to a refused request. With `any_name`, any name is accepted: other machines use it for this one.
pub(super) fn refusal(request: Asked<'_>, any_name: bool) -> Option<Answer> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    let is_one = hosts.next().is_none();
    let is_known = |host: &str| any_name || is_own(host);
    let named = request.uri().authority().map(|authority| authority.host().to_owned());
    let is_ours = match host {
        Some(host) => host.to_str().ok().and_then(host_of).is_some_and(|host| is_known(&host)),
        // No browser uses it (RFC 9112, 3.2: later versions have a Host).
        None => request.version() == Version::HTTP_10,
    };
    if !is_ours || !is_one || named.is_some_and(|host| !is_known(&host)) {
        let why = "this is answered under an address or localhost, as in http://127.0.0.1:8080/, and under no other name: \
                   a proxy in front of it sends such a Host\n";
        return Some(text(StatusCode::MISDIRECTED_REQUEST, why));
    }
    let site = request.headers().get("sec-fetch-site").map(|site| site.as_bytes());
    let own = host.and_then(|host| host.to_str().ok());
    let is_foreign = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.map(|(_, host)| host) != own
    };
    let is_of_page = matches!(site, None | Some(b"same-origin" | b"none"))
        && !request.headers().get(ORIGIN).is_some_and(is_foreign);
    let is_opened = request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    let is_page = !request.uri().path().starts_with("/api/");
    let is_asked_by_it = is_of_page || is_opened && is_page;
    if !is_asked_by_it {
        let why = "another site asks for this, which it may not\n";
        return Some(text(StatusCode::FORBIDDEN, why));
    }
    None
}

/// The host of `HOST:PORT`.
fn host_of(text: &str) -> Option<String> {
    text.parse::<Authority>()
        .ok()
        .filter(|it| !it.as_str().contains('@'))
        .map(|it| it.host().into())
}

/// True for an address, and for the name `localhost`, which resolves to no other machine (RFC 6761, 6.3).
fn is_own(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok(),
    }
}

/// The response, with restrictions for browsers.
pub(super) fn hardened(answer: Answer) -> Answer {
    let fields: [(HeaderName, &'static str); 7] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    fields.into_iter().fold(answer, |answer, (name, value)| with(answer, name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_own() {
        for host in
            ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:80", "10.1.2.3"]
        {
            assert!(host_of(host).is_some_and(|host| is_own(&host)), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "user@127.0.0.1",
            "[evil]",
            "127.0.0.1:8080:1",
            "",
            "127.0.0.1/x",
        ] {
            assert!(!host_of(host).is_some_and(|host| is_own(&host)), "{host}");
        }
    }
}
