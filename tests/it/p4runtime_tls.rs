//! P4Runtime on addresses that other machines reach: TLS, certificates of clients, and what is refused.
//!
//! `openssl` makes the certificates: a tool that the switch shares no code with.

use std::path::PathBuf;
use std::process::Command;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::live::Switch;
use wireyard_tests::skip;

use crate::p4runtime::{address, rig};
use crate::rig::{ip, private_network, veth};

const PROGRAM: &str = "programs/l2_switch";

/// Two authorities; certificates of the first for the switch and a client, of the second for a stranger.
struct Keys(tempfile::TempDir);

impl Keys {
    fn make() -> Option<Keys> {
        let keys = Keys(tempfile::tempdir().unwrap());
        std::fs::write(
            keys.path("openssl.cnf"),
            "[req]\ndistinguished_name = name\n[name]\n[ca]\nbasicConstraints = critical,CA:TRUE\n\
             [leaf]\nbasicConstraints = critical,CA:FALSE\nsubjectAltName = IP:127.0.0.1\n",
        )
        .unwrap();
        let all = [("ca", None), ("other", None), ("switch", Some("ca")), ("client", Some("ca"))];
        let mut made = all.into_iter().chain([("stranger", Some("other"))]);
        made.all(|(name, signer)| keys.certificate(name, signer)).then_some(keys)
    }

    fn certificate(&self, name: &str, signer: Option<&str>) -> bool {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-nodes"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"]);
        openssl.args(["-subj", &format!("/CN={name}"), "-keyout", &format!("{name}.key")]);
        openssl.args(["-out", &format!("{name}.pem"), "-extensions"]);
        openssl.arg(if signer.is_some() { "leaf" } else { "ca" });
        if let Some(signer) = signer {
            openssl.args(["-CA", &format!("{signer}.pem"), "-CAkey", &format!("{signer}.key")]);
        }
        let done = openssl.current_dir(self.0.path()).output();
        done.is_ok_and(|done| {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            true
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A client that trusts the first authority, with the certificate of `name`.
    fn client(&self, name: Option<&str>) -> ClientTlsConfig {
        let read = |file: &str| std::fs::read(self.path(file)).unwrap();
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca.pem")));
        match name {
            Some(name) => config.identity(Identity::from_pem(
                read(&format!("{name}.pem")),
                read(&format!("{name}.key")),
            )),
            None => config,
        }
    }
}

/// The version of P4Runtime that the switch at `address` answers.
fn version(address: &str, tls: Option<ClientTlsConfig>) -> Result<String, String> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut endpoint = Channel::from_shared(format!("{scheme}://{address}")).unwrap();
        endpoint = endpoint.timeout(std::time::Duration::from_secs(10));
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls).unwrap();
        }
        let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
        let mut client = p4::p4_runtime_client::P4RuntimeClient::new(channel);
        let answer = client.capabilities(p4::CapabilitiesRequest::default()).await;
        answer.map(|it| it.into_inner().p4runtime_api_version).map_err(|it| format!("{it:?}"))
    })
}

#[test]
fn only_clients_with_a_certificate_of_the_authority_are_served() {
    let test = "P4Runtime with TLS";
    let Some(_network) = private_network(test) else { return };
    let Some(keys) = Keys::make() else { return skip(test, "openssl is not there") };
    let [cert, key, ca] = ["switch.pem", "switch.key", "ca.pem"].map(|name| keys.text(name));
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let rig = rig(PROGRAM, &tls);
    assert!(rig.switch.err().contains("with TLS for clients with a certificate"));
    assert_eq!(version(&rig.address, Some(keys.client(Some("client")))).unwrap(), "1.5.0");
    version(&rig.address, Some(keys.client(None))).expect_err("no certificate");
    version(&rig.address, Some(keys.client(Some("stranger")))).expect_err("another authority");
    version(&rig.address, None).expect_err("no TLS");
    assert_eq!(version(&rig.address, Some(keys.client(Some("client")))).unwrap(), "1.5.0");
    rig.switch.end("TERM").expect(0, &[]);
}

/// Our own commands speak it too, and say which option is missing.
#[test]
fn commands_steer_a_switch_that_serves_tls() {
    let test = "commands with TLS";
    let Some(_network) = private_network(test) else { return };
    let Some(keys) = Keys::make() else { return skip(test, "openssl is not there") };
    let [cert, key, ca] = ["switch.pem", "switch.key", "ca.pem"].map(|name| keys.text(name));
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let rig = rig(PROGRAM, &tls);
    let list = |more: &[&str]| {
        let words = ["port", "list", "--json", "--switch", &rig.address];
        rig.switch.command(&[&words[..], more].concat())
    };
    let [other, own, own_key, stranger, stranger_key] =
        ["other.pem", "client.pem", "client.key", "stranger.pem", "stranger.key"]
            .map(|name| keys.text(name));
    let by = |ca: &str, cert: &str, key: &str| {
        list(&["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key])
    };
    let ports = by(&ca, &own, &own_key);
    assert_eq!(ports.expect(0, &[]).out.lines().count(), 2, "{ports:?}");
    // Without TLS, without a certificate, with a stranger's, and a switch that is not trusted.
    list(&[]).expect(2, &["a switch with --tls-cert needs --tls-ca"]);
    list(&["--tls-ca", &ca]).expect(2, &[]);
    by(&ca, &stranger, &stranger_key).expect(2, &[]);
    by(&other, &own, &own_key).expect(2, &["no switch can be reached there"]);
    list(&["--tls-ca", "/nowhere"]).expect(2, &["--tls-ca /nowhere: No such file"]);
    list(&["--tls-ca", &ca, "--tls-cert", &own]).expect(2, &["--tls-key"]);
    let on_socket = ["port", "list", "--tls-ca", &ca];
    rig.switch.command(&on_socket).expect(2, &["has no TLS", "--switch ADDRESS:PORT"]);
    let words = ["trace", "--live", "--seconds", "0.1", "--switch", &rig.address];
    let more = ["--tls-ca", &ca, "--tls-cert", &own, "--tls-key", &own_key];
    rig.switch.command(&[&words[..], &more].concat()).expect(0, &[]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn an_open_address_has_tls_or_is_meant_to_be_open() {
    let test = "P4Runtime on an address that is not loopback";
    let Some(_network) = private_network(test) else { return };
    let Some(keys) = Keys::make() else { return skip(test, "openssl is not there") };
    ip("link set lo up");
    ip("addr add 192.0.2.1/32 dev lo");
    veth("a0", "a1");
    let run = |more: &[&str]| {
        let words = ["run", PROGRAM, "--port", "1=raw:a1", "--duration", "1"];
        wireyard_tests::binary::run(&[&words, more].concat())
    };
    let open = ["--p4runtime", "192.0.2.1:0"];
    run(&open).expect(2, &["192.0.2.1 is no loopback address", "--tls-cert", "--insecure"]);
    let [cert, key, empty] = ["switch.pem", "client.key", "openssl.cnf"].map(|it| keys.text(it));
    let with = |more: &[&str]| run(&[&open, more].concat());
    with(&["--tls-cert", &cert]).expect(2, &["--tls-key"]);
    with(&["--tls-cert", &cert, "--tls-key", "/nowhere"])
        .expect(2, &["--tls-key /nowhere: No such file"]);
    with(&["--tls-cert", &cert, "--tls-key", &key]).expect(2, &["--tls-key", "eys"]);
    with(&["--tls-cert", &empty, "--tls-key", &key]).expect(2, &["--tls-cert"]);
    let key = keys.text("switch.key");
    let pair = ["--tls-cert", &cert, "--tls-key", &key];
    with(&[&pair[..], &["--tls-client-ca", &empty]].concat()).expect(2, &["--tls-client-ca"]);

    let switch = Switch::on(PROGRAM, &["1=raw:a1"], &[&open[..], &["--insecure"]].concat());
    assert_eq!(version(&address(&switch), None).unwrap(), "1.5.0");
    switch.end("TERM").expect(0, &[]);
}
