//! Files that commands write: never one that they read, by whatever name, and the whole result or the old file.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_tests::binary::{Ended, run_in, wireyard};
use wireyard_tests::workspace_root;

use crate::cli::Copy;

/// A program in P4 with a file that it includes.
fn p4_program(folder: &Path) {
    let text = fs::read_to_string("data/p4/router.p4").unwrap();
    fs::write(folder.join("part.p4"), "#define PART 1\n").unwrap();
    fs::write(folder.join("router.p4"), format!("#include \"part.p4\"\n{text}")).unwrap();
}

/// Other names of a file: a way around, a symbolic link, a link to that link, a hard link.
fn other_names(folder: &Path, file: &str) -> Vec<String> {
    fs::create_dir_all(folder.join("sub")).unwrap();
    let (soft, second, hard) = ("soft.svg", "sub/second.svg", "hard.svg");
    for link in [soft, second, hard] {
        let _ = fs::remove_file(folder.join(link));
    }
    symlink(file, folder.join(soft)).unwrap();
    symlink("../soft.svg", folder.join(second)).unwrap();
    fs::hard_link(folder.join(file), folder.join(hard)).unwrap();
    let around = format!("./sub/../{file}");
    let whole = folder.join(file).display().to_string();
    [file, &around, &whole, soft, second, hard].map(str::to_owned).into()
}

/// Every file of a folder, with its content.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_result_never_takes_the_place_of_what_it_is_made_from() {
    let copy = Copy::of("l2_switch");
    let folder = Path::new(copy.path());
    fs::copy(workspace_root().join("programs/headers/vxlan.yaml"), copy.file("vxlan.yaml"))
        .unwrap();
    copy.change("program.yaml", "include: [ethernet]", "include: [vxlan, ethernet]");
    fs::rename(copy.file("entries.yaml"), copy.file("others.yaml")).unwrap();
    p4_program(folder);
    let yaml = ["program.yaml", "vxlan.yaml", "others.yaml", "switch.yaml"];
    let p4 = ["router.p4", "part.p4"];
    let commands: [(&[&str], &[&str]); 6] = [
        (&["graph", ".", "--entries", "others.yaml", "--format", "svg"], &yaml),
        (&["pack", ".", "--entries", "others.yaml"], &yaml),
        (&["p4info", ".", "--entries", "others.yaml"], &yaml),
        (&["p4info", "router.p4"], &p4),
        (&["pack", "router.p4"], &p4),
        (&["convert", "router.p4"], &p4),
    ];
    for (command, sources) in commands {
        for source in sources {
            for name in other_names(folder, source) {
                let before = contents(folder);
                let ended = run_in(folder, &[command, &["-o", &name]].concat());
                ended.expect(2, &["the program is read from this file: write another one"]);
                assert!(contents(folder) == before, "{command:?} -o {name}: a file changed");
            }
        }
    }
    // Beside them anything may be written, and again.
    for (command, _) in commands {
        for _ in 0..2 {
            let ended = run_in(folder, &[command, &["-o", "sub/result"]].concat());
            ended.expect(0, &["wrote sub/result"]);
        }
        assert!(fs::metadata(copy.file("sub/result")).unwrap().len() > 500, "{command:?}");
    }
}

/// In a shell that lets it write `blocks` of 512 bytes.
fn limited(folder: &Path, blocks: u32, arguments: &str) -> Ended {
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {arguments}");
    shell.args(["-c", &script]).arg(wireyard()).current_dir(folder);
    Ended::of(&shell.output().expect("sh runs"))
}

#[test]
fn a_result_that_cannot_be_written_leaves_the_old_file() {
    let copy = Copy::of("l2_switch");
    let folder = Path::new(copy.path());
    p4_program(folder);
    for command in ["graph . --format dot", "pack .", "p4info .", "convert router.p4"] {
        for (file, old) in [("old.yaml", Some("kept")), ("new.yaml", None)] {
            let path = copy.file(file);
            old.iter().for_each(|text| fs::write(&path, text).unwrap());
            let before = contents(folder);
            let ended = limited(folder, 1, &format!("{command} -o {file}"));
            ended.expect(2, &[file, "File too large"]);
            assert!(contents(folder) == before, "{command} -o {file}: a file changed");
        }
    }
}

/// What stands in the place of the output keeps its mode and its links; what cannot be replaced is a message.
#[test]
fn an_old_file_is_replaced_with_its_mode_and_behind_its_links() {
    let copy = Copy::of("l2_switch");
    let folder = Path::new(copy.path());
    let graph = |name: &str| run_in(folder, &["graph", ".", "--format", "dot", "-o", name]);
    fs::write(copy.file("real.dot"), "old").unwrap();
    fs::set_permissions(copy.file("real.dot"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.dot", copy.file("link.dot")).unwrap();
    graph("link.dot").expect(0, &[]);
    assert!(copy.file("link.dot").is_symlink());
    assert!(fs::read_to_string(copy.file("real.dot")).unwrap().starts_with("digraph"));
    let mode = fs::metadata(copy.file("real.dot")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    symlink("not_yet.dot", copy.file("dangling.dot")).unwrap();
    graph("dangling.dot").expect(0, &[]);
    assert!(copy.file("not_yet.dot").is_file() && copy.file("dangling.dot").is_symlink());
    fs::create_dir(copy.file("folder.dot")).unwrap();
    for name in ["folder.dot", "none/"] {
        graph(name).expect(2, &[name, "name a file in it"]);
    }
    graph("none/x.dot").expect(2, &["none/x.dot", "there is no such folder"]);
    graph("/dev/null").expect(0, &[]);
    graph("/dev/full").expect(2, &["/dev/full", "No space left"]);
}

#[test]
fn results_go_to_standard_output() {
    let copy = Copy::of("l2_switch");
    let folder = Path::new(copy.path());
    p4_program(folder);
    let commands: [(&[&str], &str); 4] = [
        (&["graph", ".", "--format", "dot"], "digraph"),
        (&["graph", ".", "--format", "svg"], "<svg"),
        (&["p4info", "."], "pkg_info"),
        (&["convert", "router.p4"], "pipeline: router"),
    ];
    for (arguments, begins) in commands {
        for output in ["-", "/dev/stdout"] {
            let ended = run_in(folder, &[arguments, &["-o", output]].concat());
            ended.expect(0, &[]);
            assert!(ended.out.starts_with(begins), "{arguments:?} -o {output}: {}", ended.out);
        }
    }
    run_in(folder, &["graph", ".", "-o", "-"]).expect(2, &["--format svg or --format dot"]);
    // The file that standard output goes to is written into, not replaced.
    let script = "\"$0\" p4info . -o /dev/stdout; echo behind";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(wireyard()).current_dir(folder);
    let all = copy.file("all.txt");
    let end = fs::File::options().create(true).append(true).open(&all).unwrap();
    let status = shell.stdout(end).status().expect("sh runs");
    assert!(status.success());
    let text = fs::read_to_string(all).unwrap();
    assert!(text.contains("pkg_info") && text.ends_with("behind\n"), "{text}");
}

/// `-` is standard output and no file or folder of that name, in commands that write a folder too.
#[test]
fn no_command_makes_a_file_of_the_name_of_standard_output() {
    let place = tempfile::tempdir().unwrap();
    let folder = ["results are a folder: name one"].as_slice();
    let refused: [(&[&str], &[&str]); 6] = [
        (&["lab", "incast"], folder),
        (&["lab", "incast", "--check"], folder),
        (&["lab", "compare", "a", "b"], folder),
        (&["lab", "merge", "a"], folder),
        (&["lab", "tune", "study.yaml", "--budget", "2"], folder),
        (&["demo", "--json"], &["both go to standard output", "name a file"]),
    ];
    for (arguments, says) in refused {
        run_in(place.path(), &[arguments, &["-o", "-"]].concat()).expect(2, says);
    }
    let manual = run_in(place.path(), &["man", "-o", "-"]);
    assert!(manual.expect(0, &[]).out.contains(".SH SYNOPSIS"));
    assert!(contents(place.path()).is_empty() && !place.path().join("-").exists());
}
