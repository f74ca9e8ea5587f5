use super::super::args::MacControl;
use super::*;
use crate::ports::PortNumber;

fn translated(line: &str) -> Result<(RunArgs, Vec<String>), String> {
    let words = format!("/usr/bin/{NAME} {line}");
    let words = arguments(words.split_whitespace().map(OsString::from));
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Command::SimpleSwitchGrpc(args) => translate(&args),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn the_arguments_that_scripts_give_are_those_of_run() {
    let (run, notes) = translated(
        "-i 1@s1-eth1 -i 0@s1-eth2 --pcap /tmp --nanolog ipc:///tmp/log.ipc --device-id 3 --no-p4 --log-console \
         --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255 --drop-port 511",
    )
    .unwrap();
    assert_eq!(
        run.ports,
        ["1=s1-eth1,capture=/tmp/s1-eth1.pcapng", "0=s1-eth2,capture=/tmp/s1-eth2.pcapng"]
    );
    assert_eq!(run.p4runtime.unwrap().to_string(), "127.0.0.1:50051");
    assert_eq!((run.device_id, run.cpu_port), (3, Some(PortNumber(255))));
    assert!(matches!(run.start, Start::Nothing));
    assert_eq!(run.mac_control, MacControl::Pass);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[1].contains("--switch device_3"), "{notes:?}");
    let (_, notes) = translated(
        "--log-file ss-log --log-flush --dump-packet-data 10000 -i 0@veth0 --no-p4 -- --priority-queues 8 --grpc-server-addr 127.0.0.1:0",
    )
    .unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    let (_, notes) =
        translated("basic.json -i 0@veth0 --no-p4 --grpc-server-addr 127.0.0.1:0").unwrap();
    assert_eq!(notes, ["--no-p4: basic.json is not loaded"]);
    let (run, _) = translated("-i 1@raw:veth0 --pcap=/tmp --config queues.yaml router.p4").unwrap();
    assert_eq!(run.ports, ["1=raw:veth0,capture=/tmp/veth0.pcapng"]);
    assert_eq!(run.config.as_deref(), Some(Path::new("queues.yaml")));
    assert_eq!(run.mac_control, MacControl::Port, "its queues may have flow control");
    let (run, notes) = translated("router.p4 -i 1@veth0").unwrap();
    assert_eq!(run.program.program, Path::new("router.p4"));
    assert_eq!(run.p4runtime.unwrap().to_string(), "127.0.0.1:9559");
    assert_eq!((run.device_id, notes.len()), (0, 1), "{notes:?}");
    assert!(notes[0].contains("this machine only"), "{notes:?}");
}

/// As finsy and scripts of Kubernetes start it.
#[test]
fn tls_is_that_of_run() {
    let files = "--grpc-server-ssl --grpc-server-cacert ca.crt --grpc-server-cert s.crt --grpc-server-key s.key";
    let (run, notes) = translated(&format!(
        "--no-p4 --max-port-count 512 -i 1@veth0 -- --grpc-server-addr 0.0.0.0:9559 {files} --grpc-server-with-client-auth",
    ))
    .unwrap();
    assert_eq!(run.p4runtime.unwrap().to_string(), "0.0.0.0:9559", "{notes:?}");
    let file = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let of = [&run.tls_cert, &run.tls_key, &run.tls_client_ca].map(file);
    assert_eq!(of, ["s.crt", "s.key", "ca.crt"].map(|name| Some(name.to_owned())));
    let (run, _) = translated(&format!("--no-p4 -- {files}")).unwrap();
    assert_eq!(run.tls_client_ca, None, "clients need none");
    assert_eq!(run.p4runtime.unwrap().to_string(), "0.0.0.0:9559", "the default is that of bmv2");
    let (run, _) =
        translated(&format!("--no-p4 {}", files.replace("--grpc-server-ssl", ""))).unwrap();
    assert_eq!(run.tls_cert, None, "without --grpc-server-ssl");
    let (run, _) = translated("--no-p4 --insecure -- --grpc-server-addr 0.0.0.0:9559").unwrap();
    assert_eq!(run.p4runtime.unwrap().to_string(), "0.0.0.0:9559");
    assert!(run.insecure);
}

#[test]
fn a_host_may_have_a_name_and_the_version_is_printed() {
    let (run, _) = translated("--no-p4 -- --grpc-server-addr localhost:50051").unwrap();
    let address = run.p4runtime.unwrap();
    assert!(address.ip().is_loopback() && address.port() == 50051, "{address}");
    for flag in ["-v", "--version"] {
        let printed = translated(flag).map(|_| ()).unwrap_err();
        assert!(printed.contains(crate::cli::args::VERSION), "{printed}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (line, why) in [
        ("--no-p4 --restore-state bmv2.dump", "wireyard restore"),
        ("--no-p4 -- --grpc-server-ssl --grpc-server-cert a", "--grpc-server-key"),
        (
            "--no-p4 -- --grpc-server-ssl --grpc-server-cert a --grpc-server-key b --grpc-server-with-client-auth",
            "--grpc-server-cacert",
        ),
        ("-i 1@veth0", "--no-p4"),
        ("-i veth0 --no-p4", "PORT@INTERFACE"),
        ("-i 1@veth0 --no-p4 -- --drop-port 7", "511"),
        ("a.p4 b.p4", "not a.p4 and b.p4"),
        ("--no-p4 -- --unknown", "--unknown"),
        ("-i 1@veth0 --no-p4 --pcap nodir", "--pcap nodir: there is no such folder"),
        ("-i 1@veth0 --pcap=nodir a.p4", "--pcap nodir: there is no such folder"),
        ("-i 1@veth0 --pcap nodir a.p4", "--pcap nodir: there is no such folder"),
        ("--no-p4 --use-files 8", "replay"),
        ("--no-p4 -- --egress-spec-init-to-drop", "egress_spec"),
        ("--no-p4 -- --load-modules=libx.so", "externs"),
    ] {
        let error = translated(line).map(|_| ()).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
}
