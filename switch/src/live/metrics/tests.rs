use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;

use super::*;
use crate::stats::{Ledger, LedgerReport, Reasons};

/// A page that is served, with a loop that answers.
struct Served {
    address: SocketAddr,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<u32>>,
}

const QUICK: Limits = Limits {
    connections: 16,
    header: Duration::from_millis(300),
    total: Duration::from_millis(600),
};
const SOON: Duration = Duration::from_secs(10);

impl Served {
    fn new(limits: Limits) -> Served {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut metrics =
            Metrics::serve_with(Bound::to("--metrics", address).unwrap(), limits).unwrap();
        let end = Arc::<AtomicBool>::default();
        let (address, stop) = (metrics.address(), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            let mut snapshots = 0;
            while !stop.load(Ordering::Relaxed) {
                metrics.answer(|| {
                    snapshots += 1;
                    nothing()
                });
                std::thread::sleep(Duration::from_millis(1));
            }
            snapshots
        });
        Served { address, end, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    /// The response to these bytes until the server closes; requests of HTTP 1.1 get a `Host`, if they have none.
    fn ask(&self, request: &str) -> String {
        let line = " HTTP/1.1\r\n";
        let request = match request.contains("Host: ") {
            true => request.to_owned(),
            false => request.replace(line, &format!("{line}Host: localhost\r\n")),
        };
        let mut stream = self.connect();
        // The server may have answered and closed before it read everything.
        let _ = stream.write_all(request.as_bytes());
        rest(stream)
    }

    #[track_caller]
    fn works(&self) {
        let answer = self.ask("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("# EOF\n"), "{answer}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn nothing() -> Statistics {
    Statistics {
        total: LedgerReport::new(&Ledger::default(), &Reasons::default(), 0),
        cpu: LedgerReport::new(&Ledger::default(), &Reasons::default(), 0),
        removed: None,
        ports: Vec::new(),
        program: None,
        queueing: None,
        notification: None,
        lost_digests: 0,
        linux: None,
        controllers: None,
        storage: None,
        captures: Vec::new(),
    }
}

fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => {
            panic!("it stays open: {error}")
        }
        _ => String::from_utf8(bytes).unwrap(),
    }
}

/// Threads of this process with the server's name.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks.flatten().filter_map(|task| name(task).ok()).filter(|n| n.trim() == "metrics").count()
}

#[test]
fn a_request_has_one_answer() {
    let served = Served::new(QUICK);
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(500));
    let target = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20));
    let cases = [
        ("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
        ("GET /metrics?name=x HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
        ("GET http://localhost/metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
        ("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 200"),
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
        ("GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
        ("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404"),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]:9101\r\n\r\n", "HTTP/1.1 200"),
        // DNS rebinding: a foreign name that resolves to this address.
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421"),
        ("GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n", "HTTP/1.0 421"),
        ("GET http://evil.example/metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 421"),
        ("GET /metrics HTTP/1.1\r\nHost: \r\n\r\n", "HTTP/1.1 421"),
        // Another site in the same browser.
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n",
            "HTTP/1.1 403",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
            "HTTP/1.1 403",
        ),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", "HTTP/1.1 403"),
        (
            "GET /metrics HTTP/1.1\r\nHost: [::1]:9101\r\nOrigin: http://[::1]:9101\r\n\r\n",
            "HTTP/1.1 200",
        ),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
        ("CONNECT x:1 HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
        ("OPTIONS * HTTP/1.1\r\n\r\n", "HTTP/1.1 405"),
        ("GET /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200"),
        ("GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400"),
        ("GET /metrics HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400"),
        ("GET /metrics HTTP/9.9\r\n\r\n", "HTTP/1.1 400"),
        ("\0\u{1}\u{2}\r\n\r\n\r\n", "HTTP/1.1 400"),
        (&long, "HTTP/1.1 431"),
        (&many, "HTTP/1.1 431"),
        (&target, "HTTP/1.1 431"),
    ];
    for (request, status) in cases {
        let shown: String = request.chars().take(80).collect();
        let answer = served.ask(request);
        assert!(answer.starts_with(status), "{shown:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{shown:?}: {answer}");
    }
    assert!(served.ask("PUT /metrics HTTP/1.1\r\n\r\n").contains("allow: GET, HEAD\r\n"));
    let head = served.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("content-length: "), "{head}");
    // Another protocol has no answer.
    assert_eq!(served.ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "");
    served.works();
}

/// Two requests in one packet: the connection has one, and ends with its answer.
#[test]
fn a_connection_has_one_request() {
    let served = Served::new(QUICK);
    let answer = served.ask(&"GET /metrics HTTP/1.1\r\n\r\n".repeat(3));
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}

/// A client that closed its half of the connection gets the answer.
#[test]
fn a_client_may_close_its_half() {
    let served = Served::new(QUICK);
    let mut stream = served.connect();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(rest(stream).ends_with("# EOF\n"));
}

/// No memory is allocated for a body, whatever its declared length.
#[test]
fn a_body_is_refused_before_it_comes() {
    let served = Served::new(QUICK);
    for (body, status) in [
        ("Content-Length: 99999999999", 413),
        ("Content-Length: 18446744073709551614", 431),
        ("Content-Length: 18446744073709551616", 400),
        ("Content-Length: 5", 413),
        ("Transfer-Encoding: chunked", 413),
        ("Content-Length: 5\r\nExpect: 100-continue", 413),
    ] {
        let answer = served.ask(&format!("GET /metrics HTTP/1.1\r\n{body}\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{body}: {answer}");
        served.works();
    }
}

/// Clients that send half of a request, or of a body, cost no thread, do not keep others out, and are disconnected in
/// time.
#[test]
fn slow_clients_are_in_nobodys_way() {
    let served = Served::new(QUICK);
    let began = Instant::now();
    let mut held: Vec<TcpStream> = Vec::new();
    for n in 0..400 {
        let mut stream = served.connect();
        let part = [
            "",
            "GET /metrics HTTP/1.1\r\nX: y",
            "G",
            "GET /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\nx",
        ];
        // The one before may have been closed for this one; this one is not yet.
        let _ = stream.write_all(part[n % part.len()].as_bytes());
        held.push(stream);
        if n % 50 == 0 {
            served.works();
        }
    }
    served.works();
    // Other tests of this process have servers too.
    assert!(threads() < 20, "{} threads", threads());
    // A client that drips: the header's time does not begin again with each byte.
    let mut drip = served.connect();
    let dripped = Instant::now();
    while drip.write_all(b"X").is_ok() {
        assert!(dripped.elapsed() < SOON, "a header may take for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    held.into_iter().for_each(|stream| drop(rest(stream)));
    assert!(began.elapsed() < SOON);
    served.works();
}

/// More idle connections than permitted: the oldest are closed for new ones, long before their time is over.
#[test]
fn idle_connections_keep_nobody_out() {
    let patient = Limits { connections: 16, header: SOON * 6, total: SOON * 6 };
    let served = Served::new(patient);
    let held: Vec<TcpStream> = (0..510).map(|_| served.connect()).collect();
    served.works();
    let mut open = 0;
    for mut stream in held {
        stream.set_nonblocking(true).unwrap();
        open += usize::from(
            stream.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock),
        );
    }
    assert!(open <= patient.connections, "{open} are open");
}

/// A switch that does not answer: reported to all clients after one wait.
#[test]
fn a_switch_that_hangs_is_reported() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let metrics = Metrics::serve(Bound::to("--metrics", address).unwrap()).unwrap();
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(metrics.address()).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let began = Instant::now();
    for stream in clients {
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
    assert!(began.elapsed() < ANSWER_MOST + Duration::from_secs(3));
}

/// Continuous scraping costs the loop a snapshot once in a while, not one for each request.
#[test]
fn a_snapshot_serves_many() {
    let mut served = Served::new(QUICK);
    let began = Instant::now();
    (0..60).for_each(|_| served.works());
    let most = began.elapsed().as_millis() / FRESH_FOR.as_millis() + 2;
    served.end.store(true, Ordering::Relaxed);
    let snapshots = served.thread.take().unwrap().join().unwrap();
    assert!(u128::from(snapshots) <= most, "{snapshots} snapshots, at most {most}");
}
