//! `explain` and `schema`: documentation of error codes, adapters and file formats.

use wireyard_pipeline::diag::codes;
use wireyard_pipeline::schema;

use super::args::{ExplainArgs, SchemaArgs, SchemaKind};
use super::{Status, complain, print, print_json};
#[cfg(feature = "lab")]
use crate::lab::scenario::nic;

pub(super) fn explain(args: &ExplainArgs) -> Status {
    let Some(wanted) = &args.code else {
        return list(args.json);
    };
    #[cfg(feature = "lab")]
    if let Some(profile) = nic::find(wanted) {
        return adapter(profile, args.json);
    }
    let Some(code) = codes::Code::find(wanted) else {
        complain(&format!("no code `{wanted}`; `wireyard explain` lists all of them"));
        return Status::Wrong;
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
