//! Studies on a cluster: a Slurm job array, with a stand-in and with Slurm itself, and the manifest of an Indexed Job.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_tests::binary::{Ended, wireyard};
use wireyard_tests::{has_tool, is_root, skip, workspace_root};

use super::{SCENARIO, STUDY, figure, name, place, results, sweep};

/// Programs that stand for a cluster's: `sbatch` runs what it gets at once, task by task.
const SBATCH: &str = "#!/bin/sh
log=\"$(dirname \"$0\")/log\"
echo \"$*\" >> \"$log\"
shift
case \"$1\" in
  --dependency=*) [ -z \"$NO_MERGE\" ] || { echo 'QOSMaxSubmitJobPerUserLimit' >&2; exit 1; }
    sh -c \"$5\" >/dev/null 2>&1 ;;
  *) for task in 3 1 2; do SLURM_ARRAY_TASK_ID=$task sh \"$1\" >/dev/null 2>&1 || exit 1; done ;;
esac
echo \"$(wc -l < \"$log\");cluster\"
";

#[test]
fn a_job_array_runs_the_parts_and_merges_them() {
    let folder = place(STUDY);
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    let fake: PathBuf = bin.join("sbatch");
    fs::write(&fake, SBATCH).expect("writes");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("may run");
    let (study, out) = (folder.path().join("study.yaml"), folder.path().join("out"));
    let slurm = |path: &str, no_merge: &str| {
        let done = Command::new(wireyard())
            .args([
                "lab",
                "sweep",
                name(&study),
                "-o",
                name(&out),
                "--slurm",
                "3",
                "--engine",
                "interp",
                "--jobs",
                "2",
            ])
            .env("PATH", path)
            .env("NO_MERGE", no_merge)
            .output()
            .expect("runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, said) = slurm("/nonexistent", "");
    assert_eq!(status, Some(2));
    assert!(said.contains("there is no Slurm here"), "{said}");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bin.display());
    // What was submitted is named, though the merge was not.
    let (status, said) = slurm(&path, "yes");
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("QOSMax") && said.contains("job 1 with the parts was submitted"),
        "{said}"
    );
    fs::remove_file(bin.join("log")).expect("a log");
    let (status, said) = slurm(&path, "");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("job 1: 3 tasks") && said.contains("job 2 merges"), "{said}");
    let log = fs::read_to_string(bin.join("log")).expect("a log");
    assert!(log.contains("--dependency=afterany:1"), "{log}");
    assert_eq!(figure(&out, "study.missing"), 0.0);
    let script = fs::read_to_string(out.join("sweep.slurm")).expect("a script");
    assert!(
        script.contains("#SBATCH --array=1-3")
            && script.contains("#SBATCH --requeue")
            && script.contains("#SBATCH --cpus-per-task=2")
            && script.contains("--engine interp"),
        "{script}"
    );
    // The same results as in one go.
    assert_eq!(sweep(folder.path(), "whole", &[]).status, Some(0));
    assert_eq!(results(&folder.path().join("whole")).2, results(&out).2);
}

/// The study beside its scenario, as the volume has them.
fn in_volume(folder: &Path, out: &str, more: &[&str]) -> Ended {
    let mut command = Command::new(wireyard());
    command.args(["lab", "sweep", "study.yaml", "-o", out]).args(more).current_dir(folder);
    Ended::of(&command.output().expect("runs"))
}

#[test]
fn an_indexed_job_is_a_manifest() {
    let folder = place(STUDY);
    let more =
        ["--kubernetes", "4", "--image", "registry.example/wireyard:1", "--claim", "studies"];
    let ended = in_volume(folder.path(), "out", &more);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    for line in [
        "apiVersion: batch/v1",
        "kind: Job",
        "  completionMode: Indexed",
        "  completions: 4",
        "  backoffLimitPerIndex: 3",
        "      - action: FailIndex",
        "      restartPolicy: Never",
        "          image: \"registry.example/wireyard:1\"",
        "            claimName: \"studies\"",
    ] {
        assert!(ended.out.lines().any(|known| known == line), "{line}: {}", ended.out);
    }
    assert!(ended.out.contains("$((JOB_COMPLETION_INDEX + 1))/4"));
    let choice = ["--engine", "interp", "--jobs", "8"];
    let chosen = in_volume(folder.path(), "out", &[&more[..], &choice].concat());
    assert!(chosen.out.contains(" --engine interp --jobs 8 "), "{}", chosen.out);
    assert!(chosen.out.contains("requests: { cpu: \"8\" }"), "{}", chosen.out);
    // Only the volume is there, and stays.
    for out in ["/tmp/out", "../out"] {
        let lost = in_volume(folder.path(), out, &more);
        assert_eq!(lost.status, Some(2), "{}", lost.out);
        assert!(lost.err.contains("a container has only the volume"), "{}", lost.err);
    }
    assert_eq!(in_volume(folder.path(), "/study/out", &more).status, Some(0));
    // What is wrong in a study is found before its tasks.
    let wrong = place(&STUDY.replace("flows.cnps", "flows.cnsp"));
    let refused = sweep(wrong.path(), "out", &more);
    assert_eq!(refused.status, Some(2), "{}", refused.out);
    assert!(refused.err.contains("no figure `flows.cnsp`"), "{}", refused.err);
    // Nothing merges by itself: the manifest says how.
    let merge = "# When all tasks are done, in the same volume: wireyard lab merge 'out' -o 'out'";
    assert_eq!(ended.out.lines().next(), Some(merge));
}

/// A script and a manifest are text: a path that is not UTF-8 would name another file there.
#[test]
fn a_folder_that_is_not_utf8_is_refused() {
    let folder = place(STUDY);
    let out = folder.path().join(OsStr::from_bytes(b"out-\xff"));
    let kubernetes = ["--kubernetes", "4", "--image", "wireyard", "--claim", "studies"];
    for more in [&kubernetes[..], &["--slurm", "3"]] {
        let done = Command::new(wireyard())
            .args(["lab", "sweep", name(&folder.path().join("study.yaml")), "-o"])
            .arg(&out)
            .args(more)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("not UTF-8") && done.stdout.is_empty(), "{said}");
        assert!(!out.exists(), "{more:?} wrote something");
    }
}

/// A cluster of one machine: Slurm's controller and a node, which end with this shell. An address beside 127.0.0.1, as Slurm's
/// look-up of names returns none where there is no other.
const CLUSTER: &str = r#"set -eu
ip link set lo up
ip address add 192.0.2.1/32 dev lo
folder=$PWD/slurm
mkdir -p "$folder/state" "$folder/spool"
export SLURM_CONF=$folder/slurm.conf
cat > "$SLURM_CONF" <<END
ClusterName=one
SlurmctldHost=$(hostname)(192.0.2.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SchedulerParameters=batch_sched_delay=1,sched_min_interval=0
NodeName=$(hostname) NodeAddr=192.0.2.1 CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES State=UP
END
mungekey --create --keyfile "$folder/munge.key"
munged --foreground --force --key-file "$folder/munge.key" --socket "$folder/munge.socket" --pid-file "$folder/munge.pid" \
  --log-file "$folder/munge.log" --seed-file "$folder/munge.seed" 2> "$folder/munged.log" &
until [ -S "$folder/munge.socket" ]; do sleep 0.05; done
slurmctld -D -c 2> "$folder/slurmctld.log" &
slurmd -D -c 2> "$folder/slurmd.log" &
until sinfo --noheader --format %t 2> /dev/null | grep -q idle; do sleep 0.1; done
"$WIREYARD" lab sweep study.yaml -o "$PWD/out" --slurm 3
# One task is killed behind its first result.
until [ -s out/part-2-of-3.jsonl ]; do sleep 0.02; done
pkill -KILL -f 'lab sweep .* --shard [2]/3' && echo killed
until [ -z "$(squeue --noheader)" ]; do sleep 0.2; done
"#;

#[test]
fn slurm_runs_the_array_and_a_killed_task_is_made_up_for() {
    let test = "slurm_runs_the_array_and_a_killed_task_is_made_up_for";
    let tools = ["slurmctld", "slurmd", "sbatch", "munged", "unshare", "pkill", "ip"];
    if !is_root() || !tools.into_iter().all(has_tool) {
        return skip(test, "needs root and Slurm (Debian: slurmctld slurmd slurm-client munge)");
    }
    let folder = place(STUDY);
    // Long enough that a task is in the middle of its part when it is killed.
    let long =
        SCENARIO.replace("duration: 400 us", "duration: 4 ms").replace(", until: 300 us", "");
    fs::write(folder.path().join("marks.yaml"), long).expect("writes");
    let mut cluster = Command::new("timeout");
    cluster.args(["--signal=KILL", "180", "unshare", "--net", "--mount", "--pid", "--mount-proc"]);
    cluster.args(["--fork", "--kill-child", "sh", "-c", CLUSTER]);
    cluster.current_dir(folder.path()).env("WIREYARD", wireyard());
    let ended = cluster.output().expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success() && out.ends_with("killed\n"), "{}\n{out}{err}", ended.status);
    let parts = folder.path().join("out");
    assert_eq!((figure(&parts, "study.runs"), figure(&parts, "study.missing")), (12.0, 0.0));
    assert_eq!(sweep(folder.path(), "whole", &["--jobs", "2"]).status, Some(0));
    assert_eq!(results(&folder.path().join("whole")), results(&parts));
}

/// Kubernetes' own schemas, the oldest and the newest version that the manifest is for; a misspelt key is found.
#[test]
fn an_indexed_job_fits_the_schema_of_kubernetes() {
    let test = "an_indexed_job_fits_the_schema_of_kubernetes";
    let validate = workspace_root().join("target/tools/kubernetes/bin/kubernetes-validate");
    if !validate.is_file() {
        return skip(test, "kubernetes-validate is not there (./ci.sh tools installs it)");
    }
    let folder = place(STUDY);
    let more = ["--kubernetes", "4", "--image", "wireyard", "--claim", "studies"];
    let manifest = in_volume(folder.path(), "out", &more).out;
    let file = folder.path().join("job.yaml");
    let fits = |version: &str, text: &str| {
        fs::write(&file, text).expect("writes");
        let done = Command::new(&validate).args(["--strict", "-k", version]).arg(&file).output();
        let done = done.expect("it runs");
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for version in ["1.29", "1.37"] {
        let (fit, said) = fits(version, &manifest);
        assert!(fit, "{version}: {said}");
    }
    let misspelt = manifest.replace("backoffLimitPerIndex", "backoffLimitPerindex");
    assert!(!fits("1.37", &misspelt).0);
}
