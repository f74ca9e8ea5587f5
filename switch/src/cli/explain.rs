//! `explain` and `schema`: documentation of error codes, adapters, headers and file formats.

use wireyard_pipeline::diag::{codes, suggest};
use wireyard_pipeline::schema;

use super::args::{ExplainArgs, SchemaArgs, SchemaKind};
use super::{Status, complain, print, print_json, say};
#[cfg(feature = "lab")]
use crate::lab::scenario::nic;
use crate::library;
use crate::program::embedded;
use wireyard_pipeline::ir::{Field, FieldLayout, Header, Program};

/// The program that has all headers of the libraries.
const ALL_HEADERS: &str = "parse_all";

pub(super) fn explain(args: &ExplainArgs) -> Status {
    let Some(wanted) = &args.code else {
        return list(args.json);
    };
    if let Some((header, field)) = wanted.split_once('.') {
        return field_of(header, field, args.json);
    }
    #[cfg(feature = "lab")]
    if let Some(profile) = nic::find(wanted) {
        return adapter(profile, args.json);
    }
    if let Some((_, text)) = library::header_libraries().find(|(name, _)| *name == wanted) {
        return library_text(wanted, text, args.json);
    }
    if let Some(Ok(all)) = embedded(ALL_HEADERS)
        && let Some(header) = header_of(&all.program, wanted)
    {
        return fields(wanted, header, args.json);
    }
    let Some(code) = codes::Code::find(wanted) else {
        return unknown(wanted);
    };
    if args.json {
        print_json(&serde_json::json!({
            "code": code.id, "summary": code.summary, "page": code.page,
        }));
    } else {
        print(&format!("{} {}\n\n{}", code.id, code.summary, code.page));
    }
    Status::Success
}

/// A field is explained by its header.
fn field_of(wanted: &str, field: &str, json: bool) -> Status {
    let all = embedded(ALL_HEADERS).and_then(Result::ok);
    let Some(header) = all.as_ref().and_then(|all| header_of(&all.program, wanted)) else {
        return unknown(wanted);
    };
    let name = field.split('[').next().unwrap_or(field);
    if header.declared().any(|one| one.name == name) {
        return fields(wanted, header, json);
    }
    complain(&format!("header `{}` has no field `{name}`", header.name));
    let names: Vec<&str> = header.declared().map(|one| one.name.as_str()).collect();
    say(&match suggest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{wanted}.{near}`?"),
        None => format!("its fields are {}", names.join(", ")),
    });
    Status::Wrong
}

/// Reports that nothing has this name, with the nearest name of all kinds.
fn unknown(wanted: &str) -> Status {
    complain(&format!(
        "no code, adapter, library or header `{wanted}`; `wireyard explain` lists the codes"
    ));
    let libraries: Vec<&str> = library::header_libraries().map(|(name, _)| name).collect();
    let all = embedded(ALL_HEADERS).and_then(Result::ok);
    let headers =
        all.iter().flat_map(|all| all.program.instances.iter()).map(|one| one.name.as_str());
    let names =
        libraries.iter().copied().chain(headers).chain(codes::ALL.iter().map(|code| code.id));
    #[cfg(feature = "lab")]
    let names = names.chain(nic::NAMES.iter().copied());
    say(&match suggest(wanted, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the libraries are {}", libraries.join(", ")),
    });
    Status::Wrong
}

/// The type of a header, by its own name or that of an instance.
fn header_of<'p>(program: &'p Program, wanted: &str) -> Option<&'p Header> {
    let by_name = || program.headers.iter().find(|header| header.name == wanted);
    let name = wanted.split('[').next().unwrap_or(wanted);
    let instance = program
        .instances
        .iter()
        .find(|one| one.name.split('[').next().is_some_and(|known| known == name));
    instance.and_then(|one| program.headers.get(one.header)).or_else(by_name)
}

/// The fields of a header, in the order of the wire.
fn fields(wanted: &str, header: &Header, json: bool) -> Status {
    let library = library::header_libraries()
        .find(|(_, text)| library::declares_header(text, &header.name))
        .map(|(name, _)| name);
    if json {
        let fields = header
            .declared()
            .map(|field| serde_json::json!({ "field": field.name, "bits": width(field) }));
        print_json(&serde_json::json!({
            "header": header.name, "library": library, "bytes": header.fixed_bytes,
            "fields": fields.collect::<Vec<_>>(),
        }));
        return Status::Success;
    }
    let bytes = match header.max_bytes {
        most if most == header.fixed_bytes => most.to_string(),
        most => format!("{} to {most}", header.fixed_bytes),
    };
    let of = library.map_or_else(String::new, |name| format!(", of `include: [{name}]`"));
    let mut page = format!("{wanted}: header `{}`{of}, {bytes} bytes\n\n", header.name);
    for field in header.declared() {
        let bits = match width(field) {
            Some(1) => "   1 bit".to_owned(),
            Some(bits) => format!("{bits:>4} bits"),
            None => "variable".to_owned(),
        };
        page.push_str(&format!("  {wanted}.{:<20} {bits}\n", field.name));
    }
    print(&page);
    Status::Success
}

/// The bits of a field; `None` if each packet has its own.
fn width(field: &Field) -> Option<u32> {
    (!matches!(field.layout, FieldLayout::Variable { .. })).then_some(field.bits)
}

/// The source of a library.
fn library_text(name: &str, text: &str, json: bool) -> Status {
    match json {
        true => print_json(&serde_json::json!({ "library": name, "text": text })),
        false => print(text),
    }
    Status::Success
}

/// The settings of an adapter of a lab's `nic`.
#[cfg(feature = "lab")]
fn adapter(profile: &nic::Profile, json: bool) -> Status {
    if json {
        let settings = profile.settings.iter().map(|setting| {
            serde_json::json!({ "key": setting.key, "values": setting.values, "source": setting.source })
        });
        print_json(&serde_json::json!({
            "nic": profile.name, "about": profile.about, "settings": settings.collect::<Vec<_>>(),
        }));
    } else {
        print(&profile.page());
    }
    Status::Success
}

fn list(json: bool) -> Status {
    let all = codes::ALL.iter();
    if json {
        let rows: Vec<_> =
            all.map(|c| serde_json::json!({ "code": c.id, "summary": c.summary })).collect();
        print_json(&rows);
    } else {
        print(&all.map(|c| format!("{}  {}\n", c.id, c.summary)).collect::<String>());
    }
    Status::Success
}

pub(super) fn schema(args: &SchemaArgs) -> Status {
    print_json(&match args.kind {
        SchemaKind::Program => schema::program(),
        SchemaKind::Entries => schema::entries(),
        #[cfg(feature = "lab")]
        SchemaKind::Scenario => {
            schema::root(&crate::lab::scenario::SCENARIO, "Wireyard lab scenario")
        }
        SchemaKind::RateControl => crate::roce::rp::program::schema(),
        SchemaKind::Switch => crate::config::schema(),
        #[cfg(feature = "lab")]
        SchemaKind::Study => schema::root(&crate::lab::study::read::STUDY, "Wireyard lab study"),
    });
    Status::Success
}
