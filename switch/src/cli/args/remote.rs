//! Commands for a switch that runs.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use wireyard_pipeline::ids::{FileId, Id};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::syntax::{self, Text};

use crate::cli::complete;

/// Help of `table`.
pub(super) const TABLE_HELP: &str = "\
Examples:
  wireyard table list
  wireyard table add fdb meta.vid=10 ethernet.dst=02:00:00:00:00:01 forward 2                            (l2_switch)
  wireyard table dump fdb
  wireyard table delete fdb meta.vid=10 ethernet.dst=02:00:00:00:00:01
  wireyard table add fib ipv4.dst=10.20.0.0/16 'via(1)'                                                 (ipv4_router)
  wireyard table add acl4 meta.dst_port=1..1023 'meta.tcp_flags=0x02 &&& 0x12' deny --priority 10     (acl_firewall)

Values are written as in entries.yaml. An action has its arguments behind it, or in parentheses.";

/// Address of the switch, and certificates for TLS.
#[derive(Clone, Debug, Args)]
pub struct PlaceArgs {
    /// The switch: its name, the path of its socket, or ADDRESS:PORT or NAME:PORT of --p4runtime; not needed where one switch runs.
    #[arg(long, value_name = "NAME|PATH", env = "WIREYARD_SWITCH", global = true, add = ArgValueCandidates::new(complete::switches))]
    pub switch: Option<String>,
    /// The switch serves TLS (--tls-cert of run): certificates of the authorities that may sign its certificate, in PEM.
    #[arg(long, value_name = "FILE", global = true)]
    pub tls_ca: Option<PathBuf>,
    /// The certificate of this client, in PEM, for a switch that asks for one (--tls-client-ca of run).
    #[arg(long, value_name = "FILE", global = true, requires_all = ["tls_ca", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", global = true, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// Which switch, and how answers are written.
#[derive(Clone, Debug, Args)]
pub struct SwitchArgs {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// JSON, an object a line.
    #[arg(long, global = true)]
    pub json: bool,
    /// What is shown, again every so many seconds until Ctrl-C [without a value: 1].
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", global = true)]
    pub watch: Option<f64>,
}

/// A whole number as in entries.yaml: `16`, `0x10`, `1_000`.
pub(in crate::cli) fn whole(text: &str) -> Result<u64, String> {
    let whole = SourceSpan { file: FileId::new(0), start: 0, end: 0 };
    let read = syntax::count(Text { text, whole, start: None });
    read.map(|number| number.value).map_err(|error| error.message)
}

/// An entry, as words.
#[derive(Debug, Args)]
pub struct EntryArgs {
    /// The table.
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
    pub table: String,
    /// KEY=VALUE for each key that is not any, then the action with its arguments.
    #[arg(value_name = "KEY=VALUE... ACTION [ARGUMENT...]", required = true, add = ArgValueCompleter::new(complete::words))]
    pub words: Vec<String>,
    /// Priority, where a key is ternary, range or optional: higher wins.
    #[arg(long, value_name = "N")]
    pub priority: Option<u64>,
    /// Idle after so many milliseconds without a packet.
    #[arg(long, value_name = "MS")]
    pub idle_timeout_ms: Option<u64>,
    /// Rates of its meter, as in cir=10Mbit/s,cbs=16KB,pir=20Mbit/s,pbs=32KB.
    #[arg(long, value_name = "RATES")]
    pub meter: Option<String>,
}

/// What names an entry.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The table.
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
    pub table: String,
    /// KEY=VALUE for each key that is not any.
    #[arg(value_name = "KEY=VALUE", add = ArgValueCompleter::new(complete::keys))]
    pub keys: Vec<String>,
    /// Its priority, where it has one.
    #[arg(long, value_name = "N")]
    pub priority: Option<u64>,
}

/// A command of `table`.
#[derive(Debug, Subcommand)]
pub enum TableCommand {
    /// List the tables with their keys, actions, default actions in force and numbers of entries.
    List,
    /// Show the entries of a table, or of all; one entry, where its keys are given.
    Dump {
        /// The table.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// KEY=VALUE of one entry.
        #[arg(value_name = "KEY=VALUE", requires = "table", add = ArgValueCompleter::new(complete::keys))]
        keys: Vec<String>,
        /// Its priority, where it has one; without a key all entries of this priority.
        #[arg(long, value_name = "N")]
        priority: Option<u64>,
    },
    /// Add an entry.
    Add(EntryArgs),
    /// Give an existing entry another action.
    Modify(EntryArgs),
    /// Add an entry, or give an existing one another action.
    Set(EntryArgs),
    /// Remove an entry.
    Delete(KeyArgs),
    /// Remove all entries of a table.
    Clear {
        /// The table.
        #[arg(required_unless_present = "all", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// Of every table.
        #[arg(long, conflicts_with = "table")]
        all: bool,
    },
    /// Show the action of a miss, or set it where one is given.
    Default {
        /// The table.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// The action with its arguments; `reset` for that of the program.
        #[arg(value_name = "ACTION [ARGUMENT...]", add = ArgValueCompleter::new(complete::words))]
        words: Vec<String>,
    },
    /// Write an entries.yaml as one batch: what is new is added, what exists is changed.
    Load {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
}

/// A command on cells of arrays.
#[derive(Debug, Subcommand)]
pub enum CellCommand {
    /// List the arrays with their sizes.
    List,
    /// Show the cells that are not blank, of one array or of all; with an index that cell.
    Dump {
        /// The array.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::arrays))]
        name: Option<String>,
        /// The cell.
        #[arg(value_parser = whole)]
        index: Option<u64>,
        /// Blank cells too.
        #[arg(long)]
        all: bool,
    },
    /// Write a cell.
    Set {
        /// The array.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::arrays))]
        name: String,
        /// The cell.
        #[arg(value_parser = whole)]
        index: u64,
        /// The value, as in the examples.
        #[arg(required = true)]
        values: Vec<String>,
    },
    /// Blank a cell, or all cells of an array.
    Clear {
        /// The array.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::arrays))]
        name: String,
        /// The cell.
        #[arg(value_parser = whole)]
        index: Option<u64>,
    },
}

/// A command on numbered objects of the device.
#[derive(Debug, Subcommand)]
pub enum NumberedCommand {
    /// Show all, or the one with this number.
    Dump {
        /// Its number.
        #[arg(value_parser = whole)]
        number: Option<u64>,
    },
    /// Set the one with this number, new or existing.
    Set {
        /// Its number.
        #[arg(value_parser = whole)]
        number: u64,
        /// What it is, as in the examples.
        #[arg(required = true)]
        words: Vec<String>,
        /// For multicast: no copy to the port that a packet came in by.
        #[arg(long)]
        prune_ingress: bool,
    },
    /// Remove the one with this number.
    Delete {
        /// Its number.
        #[arg(value_parser = whole)]
        number: u64,
    },
}

/// A command on members or groups of a table.
#[derive(Debug, Subcommand)]
pub enum SelectorCommand {
    /// Show those of a table, or of all tables.
    Dump {
        /// The table.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// Its number.
        #[arg(value_parser = whole)]
        number: Option<u64>,
    },
    /// Add one.
    Add(SelectorWords),
    /// Change an existing one.
    Modify(SelectorWords),
    /// Add one, or change the existing one.
    Set(SelectorWords),
    /// Remove one.
    Delete {
        /// The table.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
        table: String,
        /// Its number.
        #[arg(value_parser = whole)]
        number: u64,
    },
}

/// A member or group, as words.
#[derive(Debug, Args)]
pub struct SelectorWords {
    /// The table.
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::tables))]
    pub table: String,
    /// Its number.
    #[arg(value_parser = whole)]
    pub number: u64,
    /// The action with its arguments, or the members with their weights.
    pub words: Vec<String>,
}

/// A command of `value-set`.
#[derive(Debug, Subcommand)]
pub enum ValueSetCommand {
    /// List the value sets with their sizes.
    List,
    /// Show the members of one, or of all.
    Dump {
        /// The set.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::arrays))]
        name: Option<String>,
    },
    /// Replace the members.
    Set {
        /// The set.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::arrays))]
        name: String,
        /// Members; none empties it. Of several keys: `a=1,b=80..443`.
        values: Vec<String>,
    },
    /// Go back to the members that the program declares.
    Reset {
        /// The set.
        #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(complete::arrays))]
        name: String,
    },
}

/// A command of `port`.
#[derive(Debug, Subcommand)]
pub enum PortCommand {
    /// List the ports with their links.
    List,
    /// Open a port.
    Add {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
        /// What it is, as in `run --port`: raw:veth5, tap:tap0, pcap:in.pcap.
        spec: String,
    },
    /// Close a port: what waits for it is dropped.
    Remove {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
    },
    /// Take a port up again.
    Up {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
    },
    /// Take a port down: it carries no frame in either direction.
    Down {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
    },
    /// Set faults of a port's cable, until `none`; without any, show those that are set.
    Faults {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
        /// As in loss=1%,corrupt=0.1%,duplicate=1%,reorder=1%,reorder_by=1ms,delay=2ms,seed=7; or none.
        spec: Option<String>,
    },
}

/// Arguments of a command with subcommands.
macro_rules! command_args {
    ($($(#[$doc:meta])* $name:ident: $command:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Args)]
            pub struct $name {
                #[command(subcommand)]
                pub command: $command,
                #[command(flatten)]
                pub on: SwitchArgs,
            }
        )*
    };
}

command_args! {
    /// `table`.
    TableArgs: TableCommand;
    /// `counter`.
    CounterArgs: CellCommand;
    /// `meter`.
    MeterArgs: CellCommand;
    /// `register`.
    RegisterArgs: CellCommand;
    /// `value-set`.
    ValueSetArgs: ValueSetCommand;
    /// `member`.
    MemberArgs: SelectorCommand;
    /// `group`.
    GroupArgs: SelectorCommand;
    /// `multicast`.
    MulticastArgs: NumberedCommand;
    /// `mirror`.
    MirrorArgs: NumberedCommand;
    /// `port`.
    PortArgs: PortCommand;
}

/// `stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    #[command(flatten)]
    pub on: SwitchArgs,
    /// The entries that most packets met too: so many of each table that counts [without a value: 20].
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub entries: Option<u32>,
    /// Watermarks begin anew.
    #[arg(long)]
    pub clear_watermarks: bool,
}
