//! A headless Chromium, driven over its DevTools protocol (<https://chromedevtools.github.io/devtools-protocol/>).
//!
//! Chromium speaks it on descriptors 3 and 4 (`--remote-debugging-pipe`), a JSON document and a zero byte each: no port, and no library
//! but one for JSON. What goes wrong in a page (exceptions, errors of the console, what its policy forbids) is kept to be judged.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long Chromium may take to answer: it starts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    problems: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts Chromium in the network namespace of this thread; `None` where it is not installed.
    ///
    /// # Panics
    /// It is there and does not start.
    pub fn start() -> Option<Browser> {
        if !crate::has_tool("chromium") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let user_data = format!("--user-data-dir={}", folder.path().display());
        let mut shell = Command::new("sh");
        // Descriptor 3 is read, 4 is written.
        shell.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "chromium"]);
        shell.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ]);
        shell.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]);
        shell.args([
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            &user_data,
            "about:blank",
        ]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().expect("a shell");
        let (to, out) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut bytes = Vec::new();
            while out.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                bytes.pop();
                let Ok(message) = serde_json::from_slice(&bytes) else { return };
                if sender.send(message).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let (next, session, problems) = (0, None, Vec::new());
        let mut browser = Browser { child, to, from, next, session, problems, _folder: folder };
        let found = browser.call("Target.getTargets", json!({}));
        let targets = found["targetInfos"].as_array().expect("targets").iter();
        let page = targets.clone().find(|target| target["type"] == "page").expect("a page");
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Makes a call and waits for its result.
    ///
    /// # Panics
    /// It fails, or Chromium does not answer.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = self.session.as_ref().filter(|_| !method.starts_with("Target.")) {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("Chromium reads");
        loop {
            let message = self.from.recv_timeout(PATIENCE).expect("Chromium answers");
            if message["id"] == self.next {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// Keeps what is wrong.
    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        let is_wrong = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => parameters["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => parameters["type"] == "error",
            _ => false,
        };
        if is_wrong {
            self.problems.push(parameters.to_string());
        }
    }

    /// What went wrong in the page since the last call.
    pub fn problems(&mut self) -> Vec<String> {
        // The answer comes behind what happened before.
        self.call("Runtime.evaluate", json!({ "expression": "0" }));
        std::mem::take(&mut self.problems)
    }

    /// Opens an address.
    #[track_caller]
    pub fn open(&mut self, address: &str) {
        let opened = self.call("Page.navigate", json!({ "url": address }));
        assert!(opened.get("errorText").is_none(), "{address}: {opened}");
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// It throws.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", asked);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Panics
    /// It is not, in time.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.value(&format!("Boolean({expression})")) != true {
            let text = "document.body?.innerText";
            assert!(Instant::now() < deadline, "never {expression}: {}", self.value(text));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Gives the page this many pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the system of the user prefers: `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Presses a key that makes this text.
    pub fn press(&mut self, key: &str) {
        let event = |kind: &str| json!({ "type": kind, "key": key, "text": key });
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// Writes a picture of the page into this folder, as the base64 text that Chromium gives: `base64 -d` makes it a PNG.
    pub fn picture(&mut self, folder: &Path, name: &str) {
        let taken = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let text = taken["data"].as_str().expect("a picture");
        let file = folder.join(format!("{name}.png"));
        let mut decode = Command::new("base64");
        decode.arg("-d").stdin(Stdio::piped()).stdout(std::fs::File::create(file).expect("a file"));
        let mut decode = decode.spawn().expect("base64 runs");
        decode.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        assert!(decode.wait().is_ok_and(|status| status.success()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
