//! A study on a cluster: as a Slurm job array, or a Kubernetes Indexed Job. Each task runs a part; a task that is
//! killed is restarted and continues its part.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::folder::{FileError, Folder};
use wireyard_pipeline::diag::safe::shown;

/// The job array.
#[derive(Clone, Debug)]
pub struct Array<'a> {
    /// The study's name.
    pub name: &'a str,
    /// Its file.
    pub study: &'a Path,
    /// Folder of the results; every task must have access to it.
    pub output: &'a Path,
    /// The engine, as on the command line.
    pub engine: &'static str,
    /// Runs of a task at a time.
    pub jobs: Option<u16>,
    /// Tasks.
    pub parts: u32,
}

/// The folder in which a container has the volume with the study.
const VOLUME: &str = "/study";

/// A word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A path as a word of a shell. The script and the manifest are UTF-8, so that the path has to be.
fn word_of(path: &Path) -> Result<String, ClusterError> {
    path.to_str().map(quoted).ok_or_else(|| ClusterError::NotUtf8(path.to_path_buf()))
}

/// True for a path from the volume's root, or below the place that a container has it at.
fn is_in_volume(path: &Path) -> bool {
    let leaves = path.components().any(|part| part == Component::ParentDir);
    !leaves && (path.is_relative() || path.starts_with(VOLUME))
}

impl Array<'_> {
    fn words(&self) -> Result<[String; 2], ClusterError> {
        Ok([word_of(self.study)?, word_of(self.output)?])
    }

    /// The script of a task; `sbatch` reads the lines that begin with `#SBATCH`. A killed process is started again, because Slurm
    /// requeues the tasks of a node that failed, not those whose process was killed.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn slurm_script(&self, program: &Path) -> Result<String, ClusterError> {
        let [study, output] = self.words()?;
        let program = word_of(program)?;
        // The task finds the number of its processors in its environment.
        let cpus = self.jobs.map(|jobs| format!("#SBATCH --cpus-per-task={jobs}\n"));
        Ok(format!(
            "#!/bin/sh\n#SBATCH --job-name=wireyard-{}\n#SBATCH --array=1-{parts}\n#SBATCH --requeue\n{cpus}\
             # A part that is killed (SIGKILL, as by the kernel when memory is short) continues where it was.\n\
             for attempt in 1 2 3 4; do\n  {program} lab sweep {study} \
             --shard \"$SLURM_ARRAY_TASK_ID/{parts}\" -o {output} --engine {engine} --jobs \"${{SLURM_CPUS_PER_TASK:-1}}\" --quiet\n  \
             status=$?\n  [ \"$status\" -eq 137 ] || break\ndone\nexit \"$status\"\n",
            self.name,
            engine = self.engine,
            cpus = cpus.unwrap_or_default(),
            parts = self.parts
        ))
    }

    /// Submits the array, and the merge after its last task.
    ///
    /// # Errors
    /// There is no Slurm, or its error; a path is not UTF-8.
    pub fn submit(&self, program: &Path) -> Result<(String, String), ClusterError> {
        let script = self.slurm_script(program)?;
        let script = Folder::make(self.output)?.write("sweep.slurm", script.as_bytes())?;
        let array = sbatch(&[&script.display().to_string()])?;
        let [_, output] = self.words()?;
        let merge = format!("{} lab merge {output} -o {output}", word_of(program)?);
        // After all tasks, whether they succeeded or not: the report lists the missing points.
        let after = format!("--dependency=afterany:{array}");
        match sbatch(&[&after, "--job-name", "wireyard-merge", "--wrap", &merge]) {
            Ok(job) => Ok((array, job)),
            Err(why) => Err(ClusterError::NoMerge { array, merge, why: Box::new(why) }),
        }
    }

    /// The manifest of an Indexed Job (batch/v1, Kubernetes 1.29 and later). Its name is one of DNS (RFC 1123), with
    /// room for the index.
    ///
    /// # Errors
    /// A path is not UTF-8, or outside of the volume.
    pub fn kubernetes(&self, image: &str, claim: &str) -> Result<String, ClusterError> {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let [study, output] = self.words()?;
        if let Some(path) = [self.study, self.output].into_iter().find(|path| !is_in_volume(path)) {
            return Err(ClusterError::OutsideOfVolume(path.to_path_buf()));
        }
        let (jobs, cpus) = match self.jobs {
            Some(jobs) => (
                format!(" --jobs {jobs}"),
                format!("          resources: {{ requests: {{ cpu: \"{jobs}\" }} }}\n"),
            ),
            None => Default::default(),
        };
        let (parts, engine) = (self.parts, self.engine);
        let command = format!(
            "exec wireyard lab sweep {study} --shard \"$((JOB_COMPLETION_INDEX + 1))/{parts}\" -o {output} --engine {engine}{jobs} --quiet"
        );
        let name: String = self
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .take(40)
            .collect();
        let name = format!("wireyard-{name}");
        Ok(format!(
            "# When all tasks are done, in the same volume: wireyard lab merge {output} -o {output}\n\
             apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n  completionMode: Indexed\n  completions: {parts}\n  parallelism: \
             {parts}\n  backoffLimitPerIndex: 3\n  \
             # A part with a run that failed is done.\n  \
             podFailurePolicy:\n    rules:\n      - action: FailIndex\n        onExitCodes: {{ operator: In, values: [1] }}\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: sweep\n          \
             image: {image}\n          workingDir: {VOLUME}\n          command: [\"/bin/sh\", \"-c\", {command}]\n{cpus}          volumeMounts:\n            \
             - name: study\n              mountPath: {VOLUME}\n      volumes:\n        - name: study\n          persistentVolumeClaim:\n            \
             claimName: {claim}\n",
            name = json(name.trim_end_matches('-')),
            image = json(image),
            command = json(&command),
            claim = json(claim),
        ))
    }
}

/// Why nothing was submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// There is no `sbatch`.
    #[error(
        "sbatch: {0}: there is no Slurm here; `--shard K/N` runs a part by hand, and `wireyard lab merge` puts them together"
    )]
    NoSlurm(io::Error),
    /// Slurm's error.
    #[error("sbatch: {0}")]
    Refused(String),
    /// The script or the manifest cannot name a path.
    #[error("{}: not UTF-8, as the job's script must be: rename it", .0.display())]
    NotUtf8(PathBuf),
    /// The array was submitted, and the merge was not.
    #[error("{why}; job {array} with the parts was submitted: when it has ended, run {merge}")]
    NoMerge {
        /// The array's job.
        array: String,
        /// The command of the merge.
        merge: String,
        /// Slurm's error.
        why: Box<ClusterError>,
    },
    /// A container would not have it, or would lose it when it ends.
    #[error(
        "{}: a container has only the volume, at {VOLUME}: name the study and the folder (`-o`) from the volume's root",
        shown(.0)
    )]
    OutsideOfVolume(PathBuf),
    /// The script cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Submits; returns the number of the job.
fn sbatch(arguments: &[&str]) -> Result<String, ClusterError> {
    let done = Command::new("sbatch").arg("--parsable").args(arguments).output();
    let done = done.map_err(ClusterError::NoSlurm)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !done.status.success() {
        return Err(ClusterError::Refused(text(&done.stderr)));
    }
    // `--parsable` prints the number, and the cluster after a semicolon.
    let said = text(&done.stdout);
    Ok(said.split(';').next().unwrap_or_default().to_owned())
}
