use std::path::Path;
use wireyard_pipeline::source::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let loader = Loader::new(vec![], &[]);
    let mode = args[1].as_str();
    let (mut ok, mut bad) = (0, 0);
    for path in &args[2..] {
        let r = std::thread::scope(|_| {
            std::panic::catch_unwind(|| match mode {
                "check" => check_p4(Path::new(path), &loader).map_err(|e| e.to_string()),
                "lower" => parse_program(Path::new(path), &loader).map(|_| ()).map_err(|e| e.to_string()),
                "print" => parse_program(Path::new(path), &loader)
                    .map(|p| println!("{}", wireyard_pipeline::ast::print::units(&p.units)))
                    .map_err(|e| e.to_string()),
                _ => parse_program(Path::new(path), &loader).and_then(|p| {
                    wireyard_pipeline::check::compile(&p, &wireyard_pipeline::check::ExternRegistry::new())
                        .map(|_| ())
                        .map_err(|diagnostics| wireyard_pipeline::diag::Rejected { diagnostics, files: p.files.clone() })
                }).map_err(|e| e.to_string()),
            })
        });
        match r {
            Ok(Ok(())) => { ok += 1; if mode == "check" { println!("OK {path}"); } }
            Ok(Err(e)) => {
                bad += 1;
                println!("BAD {path}\n{}", e);
            }
            Err(_) => { bad += 1; println!("PANIC {path}"); }
        }
    }
    println!("{ok} ok, {bad} bad");
}
