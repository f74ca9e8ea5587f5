//! Commands for a switch that runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};

use crate::cli::complete;

/// Help of `table`.
pub(super) const TABLE_HELP: &str = "\
Examples:
  wireyard table list
  wireyard table add fdb ethernet.dst=02:00:00:00:00:01 forward 2
  wireyard table add routes4 ipv4.dst=10.1.0.0/16 'next_hop(3)'
  wireyard table add acl tcp.dport=1..1023 'ethernet.src=02:00:00:00:00:00 &&& ff:ff:ff:00:00:00' drop --priority 10
  wireyard table dump fdb
  wireyard table delete fdb ethernet.dst=02:00:00:00:00:01

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
    #[expect(missing_docs, reason = "documented on the type")]
    pub place: PlaceArgs,
    /// JSON, an object a line.
    #[arg(long, global = true)]
    pub json: bool,
    /// Again every so many seconds, until Ctrl-C [without a value: 1].
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", global = true)]
    pub watch: Option<f64>,
}

/// An entry, as words.
#[derive(Debug, Args)]
pub struct EntryArgs {
    /// The table.
    #[arg(add = ArgValueCandidates::new(complete::tables))]
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
    #[arg(add = ArgValueCandidates::new(complete::tables))]
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
    /// The tables with their keys, actions, default actions in force and numbers of entries.
    List,
    /// Entries of a table, or of all; of one key, where keys are given.
    Dump {
        /// The table.
        #[arg(add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// KEY=VALUE of one entry.
        #[arg(value_name = "KEY=VALUE", requires = "table", add = ArgValueCompleter::new(complete::keys))]
        keys: Vec<String>,
        /// Its priority, where it has one; without a key all entries of this priority.
        #[arg(long, value_name = "N")]
        priority: Option<u64>,
    },
    /// A new entry.
    Add(EntryArgs),
    /// Another action for an entry that is there.
    Modify(EntryArgs),
    /// A new entry, or another action for one that is there.
    Set(EntryArgs),
    /// An entry goes.
    Delete(KeyArgs),
    /// All entries of a table go.
    Clear {
        /// The table.
        #[arg(required_unless_present = "all", add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// Of every table.
        #[arg(long, conflicts_with = "table")]
        all: bool,
    },
    /// What a miss does: shown, or set where an action is given.
    Default {
        /// The table.
        #[arg(add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// The action with its arguments; `reset` for that of the program.
        #[arg(value_name = "ACTION [ARGUMENT...]", add = ArgValueCompleter::new(complete::words))]
        words: Vec<String>,
    },
    /// Everything of an entries.yaml, as one batch: what is new is added, what is there is changed.
    Load {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
}

/// A command on cells of arrays.
#[derive(Debug, Subcommand)]
pub enum CellCommand {
    /// The arrays with their sizes.
    List,
    /// Cells that are not blank, of one array or all; with an index that one.
    Dump {
        /// The array.
        #[arg(add = ArgValueCandidates::new(complete::arrays))]
        name: Option<String>,
        /// The cell.
        index: Option<u64>,
        /// Blank cells too.
        #[arg(long)]
        all: bool,
    },
    /// Another value for a cell.
    Set {
        /// The array.
        #[arg(add = ArgValueCandidates::new(complete::arrays))]
        name: String,
        /// The cell.
        index: u64,
        /// The value; see the examples.
        #[arg(required = true)]
        values: Vec<String>,
    },
    /// A cell, or all of an array, becomes blank.
    Clear {
        /// The array.
        #[arg(add = ArgValueCandidates::new(complete::arrays))]
        name: String,
        /// The cell.
        index: Option<u64>,
    },
}

/// A command on numbered objects of the device.
#[derive(Debug, Subcommand)]
pub enum NumberedCommand {
    /// All, or one.
    Dump {
        /// Its number.
        number: Option<u64>,
    },
    /// A new one, or another form of one that is there.
    Set {
        /// Its number.
        number: u64,
        /// What it is; see the examples.
        #[arg(required = true)]
        words: Vec<String>,
        /// No copy to the port that a packet came in by (multicast).
        #[arg(long)]
        prune_ingress: bool,
    },
    /// One goes.
    Delete {
        /// Its number.
        number: u64,
    },
}

/// A command on members or groups of a table.
#[derive(Debug, Subcommand)]
pub enum SelectorCommand {
    /// Of a table, or of all.
    Dump {
        /// The table.
        #[arg(add = ArgValueCandidates::new(complete::tables))]
        table: Option<String>,
        /// Its number.
        number: Option<u64>,
    },
    /// A new one.
    Add(SelectorWords),
    /// Another form of one that is there.
    Modify(SelectorWords),
    /// A new one, or another form of one that is there.
    Set(SelectorWords),
    /// One goes.
    Delete {
        /// The table.
        #[arg(add = ArgValueCandidates::new(complete::tables))]
        table: String,
        /// Its number.
        number: u64,
    },
}

/// A member or group, as words.
#[derive(Debug, Args)]
pub struct SelectorWords {
    /// The table.
    #[arg(add = ArgValueCandidates::new(complete::tables))]
    pub table: String,
    /// Its number.
    pub number: u64,
    /// The action with its arguments, or the members with their weights.
    pub words: Vec<String>,
}

/// A command of `value-set`.
#[derive(Debug, Subcommand)]
pub enum ValueSetCommand {
    /// The value sets with their sizes.
    List,
    /// Members of one, or of all.
    Dump {
        /// The set.
        #[arg(add = ArgValueCandidates::new(complete::arrays))]
        name: Option<String>,
    },
    /// These members instead of those that are in it.
    Set {
        /// The set.
        #[arg(add = ArgValueCandidates::new(complete::arrays))]
        name: String,
        /// Members; none empties it. Of several keys: `a=1,b=80..443`.
        values: Vec<String>,
    },
    /// The members that the program declares.
    Reset {
        /// The set.
        #[arg(add = ArgValueCandidates::new(complete::arrays))]
        name: String,
    },
}

/// A command of `port`.
#[derive(Debug, Subcommand)]
pub enum PortCommand {
    /// The ports with their links.
    List,
    /// Opens a port.
    Add {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
        /// What it is, as in `run --port`: raw:veth5, tap:tap0, pcap:in.pcap.
        spec: String,
    },
    /// Closes a port: what waits for it is dropped.
    Remove {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
    },
    /// Takes a port up again.
    Up {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
    },
    /// Takes a port down: it carries no frame in either direction.
    Down {
        /// Its number.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
    },
    /// Faults on its cable, until `none`; without any, those that are on it.
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
                #[expect(missing_docs, reason = "documented on the type")]
                pub command: $command,
                #[command(flatten)]
                #[expect(missing_docs, reason = "documented on the type")]
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
    #[expect(missing_docs, reason = "documented on the type")]
    pub on: SwitchArgs,
    /// The entries that most packets met too: so many of each table that counts [without a value: 20].
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub entries: Option<u32>,
    /// Watermarks begin anew.
    #[arg(long)]
    pub clear_watermarks: bool,
}
