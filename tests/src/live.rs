//! `wireyard run` as a process: started, talked to with signals, ended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::binary::{Ended, wireyard};
use crate::workspace_root;

/// A running switch. Killed if the test drops it.
pub struct Switch {
    child: Child,
    folder: tempfile::TempDir,
}

impl Switch {
    /// Starts `wireyard run ARGUMENTS` in the network namespace of this thread; back when it forwards.
    ///
    /// # Panics
    /// It ends, or does not come up within 30 seconds.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Switch {
        Switch::start_under(&[], arguments)
    }

    /// Starts a program on these ports, with `more` arguments.
    ///
    /// # Panics
    /// As [`Switch::start`].
    #[track_caller]
    pub fn on(program: &str, ports: &[&str], more: &[&str]) -> Switch {
        let mut arguments = vec![program];
        ports.iter().for_each(|port| arguments.extend(["--port", *port]));
        arguments.extend(more);
        Switch::start(&arguments)
    }

    /// As [`Switch::start`], by a command that runs another one in its place, such as `prlimit --memlock=0`.
    ///
    /// # Panics
    /// As [`Switch::start`].
    #[track_caller]
    pub fn start_under(wrapper: &[&str], arguments: &[&str]) -> Switch {
        let mut command = match wrapper {
            [] => Command::new(wireyard()),
            [program, more @ ..] => {
                let mut command = Command::new(program);
                command.args(more).arg(wireyard());
                command
            }
        };
        command.arg("run").args(arguments);
        Switch::spawn(command)
    }

    /// Starts the binary by the name of bmv2's switch, with the arguments of that.
    ///
    /// # Panics
    /// As [`Switch::start`].
    #[track_caller]
    pub fn simple_switch_grpc(arguments: &[&str]) -> Switch {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let link = folder.path().join("simple_switch_grpc");
        std::os::unix::fs::symlink(wireyard(), &link).expect("a link");
        let mut command = Command::new(link);
        command.args(arguments);
        Switch::spawn(command)
    }

    #[track_caller]
    fn spawn(mut command: Command) -> Switch {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name| File::create(folder.path().join(name)).expect("a file");
        command.current_dir(workspace_root());
        // No test finds another one's switch.
        command.env("WIREYARD_RUN_DIR", folder.path());
        command.stdout(file("out")).stderr(file("err")).stdin(Stdio::null());
        let child = command.spawn().expect("the switch starts");
        let mut switch = Switch { child, folder };
        switch.await_text(" runs on ", Duration::from_secs(30));
        switch
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it wrote to standard output so far.
    pub fn out(&self) -> String {
        self.text("out")
    }

    /// What it wrote to standard error so far.
    pub fn err(&self) -> String {
        self.text("err")
    }

    /// Waits until standard output or standard error holds `text`.
    ///
    /// # Panics
    /// It does not, in time.
    #[track_caller]
    pub fn await_text(&mut self, text: &str, most: Duration) {
        let deadline = Instant::now() + most;
        while !self.err().contains(text) && !self.out().contains(text) {
            let ended = self.child.try_wait().expect("the child can be waited for");
            let late = Instant::now() > deadline;
            assert!(
                ended.is_none() && !late,
                "no `{text}` (ended: {ended:?}): {}{}",
                self.out(),
                self.err()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where its control socket is, under the name of its program.
    pub fn run_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command for a switch that runs, which finds this one.
    ///
    /// # Panics
    /// It cannot be started, or panics.
    #[track_caller]
    pub fn command(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(wireyard());
        command.args(arguments).env("WIREYARD_RUN_DIR", self.folder.path());
        command.current_dir(workspace_root()).stdin(Stdio::null());
        Ended::of(&command.output().expect("the binary runs"))
    }

    /// The objects that a command prints with `--json`.
    ///
    /// # Panics
    /// It fails, or prints something else.
    #[track_caller]
    pub fn objects(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let ended = self.command(&[arguments, &["--json"]].concat());
        assert_eq!(ended.status, Some(0), "{arguments:?}: {}", ended.err);
        let object = |line| serde_json::from_str(line).expect("a line of JSON");
        ended.out.lines().map(object).collect()
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name: INT, TERM, USR1.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// Ends it by a signal and waits.
    ///
    /// # Panics
    /// It still runs after ten seconds.
    #[track_caller]
    pub fn end(mut self, signal: &str) -> Ended {
        self.signal(signal);
        let deadline = Instant::now() + Duration::from_secs(10);
        let status = loop {
            match self.child.try_wait().expect("the child can be waited for") {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "it runs on after SIG{signal}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let (out, err) = (self.out(), self.err());
        assert!(!err.contains("panicked at"), "{err}");
        assert!(!err.contains("the sandbox refused"), "{err}");
        Ended { status: status.code(), out, err }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // After `end` there is nothing to kill and this says so, which is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
