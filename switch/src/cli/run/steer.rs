//! The control of the switch that `run` started: the unix socket and the address of controllers, the stored state, the
//! kernel.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wireyard_pipeline::diag::counted;
use wireyard_tables::time::Time;

use super::super::args::{RunArgs, Start};
use super::super::{Failure, log};
use crate::confine::Confinement;
use crate::control::Control;
use crate::core::Core;
use crate::gnmi;
use crate::linux::{self, Handle, Namespace};
use crate::live::http;
use crate::live::port_file::PortFile;
use crate::management::queues;
use crate::management::service::Management;
use crate::management::socket::{self, Choice, Socket, SocketFile};
use crate::p4runtime::device::Device;
use crate::p4runtime::persist::{self, Begun};
use crate::p4runtime::proto::gnmi::g_nmi_server::GNmiServer;
use crate::p4runtime::room::{Bounded, REQUESTS_BYTES_MAX, Room};
use crate::p4runtime::server::{self, Bound, Listeners};
use crate::p4runtime::tls;
use crate::program::Loaded;
use crate::web;

/// Interval at which workers that do not run yet serve requests of the control plane.
const BETWEEN_COMMANDS: Duration = Duration::from_micros(100);

/// Opens the requested unix socket. By default the switch also runs without one.
pub(super) fn socket(args: &RunArgs, program: &str) -> Result<Option<Socket>, Failure> {
    let group = args.control_group.as_deref().map(socket::group).transpose()?;
    match &args.control {
        Choice::Nowhere => Ok(None),
        Choice::Path(path) => {
            let socket = Socket::at(path, group).map_err(|e| format!("--control {e}"))?;
            Ok(Some(socket))
        }
        Choice::Default => match Socket::named(&socket_name(args, program), group) {
            Ok(socket) => Ok(Some(socket)),
            Err(why) => {
                tracing::warn!("no control socket: {why}; use --control PATH");
                Ok(None)
            }
        },
    }
}

/// The name of the socket: that of the program, or of the device for a switch in the place of bmv2's, of which several run
/// the same program.
fn socket_name(args: &RunArgs, program: &str) -> String {
    match args.is_simple_switch {
        true => format!("device_{}", args.device_id),
        false => program.to_owned(),
    }
}

/// Binds the address for controllers, with TLS if its files are given.
pub(super) fn controllers(args: &RunArgs) -> Result<Option<Bound>, Failure> {
    let Some(address) = args.p4runtime else { return Ok(None) };
    let files = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let client_ca = args.tls_client_ca.as_deref();
    let options = match args.is_simple_switch {
        true => tls::Options::BMV2,
        false => tls::Options::RUN,
    };
    let read = |(cert, key)| tls::Files { cert, key, client_ca }.read(options);
    Ok(Some(Bound::to(options, address, files.map(read).transpose()?)?))
}

/// Serves clients of the switch; keep the returned file of the socket until the end.
pub(super) fn serve(
    args: &RunArgs,
    loaded: &Loaded,
    (control, begun): (Control, Begun),
    (socket, address): (Option<Socket>, Option<Bound>),
) -> Result<(Option<SocketFile>, Option<Arc<Device>>), Failure> {
    if socket.is_none() && address.is_none() {
        return Ok((None, None));
    }
    let name = socket.as_ref().and_then(|socket| socket.path().file_stem());
    let name = name.map_or(loaded.program.name.clone(), |name| name.to_string_lossy().into_owned());
    let device = Device::new(args.device_id, control, &loaded.parsed, begun);
    if matches!(args.start, Start::Nothing) {
        device.set_absent();
    }
    let device = Arc::new(device);
    device.follow_writes();
    let management = Management::new(Arc::clone(&device), &name);
    let room = Room::new(REQUESTS_BYTES_MAX);
    let mut services = management.clone().routes(&room);
    if args.gnmi {
        let calls = GNmiServer::new(gnmi::Service::new(management));
        let streams = Some(("/Subscribe", calls.clone()));
        services = services.add_service(Bounded { calls, streams, room: Arc::clone(&room) });
    }
    let place = address.as_ref().map(Bound::address);
    let (listener, file) = socket.map(Socket::split).unzip();
    server::serve(
        Listeners { address, socket: listener.flatten() },
        Arc::clone(&device),
        services,
        room,
    )?;
    if let Some(place) = place {
        let gnmi = if args.gnmi { ", with gNMI" } else { "" };
        let tls = match (&args.tls_cert, &args.tls_client_ca) {
            (None, _) => "",
            (Some(_), None) => ", with TLS",
            (Some(_), Some(_)) => ", with TLS for clients with a certificate",
        };
        tracing::info!(
            event = "p4runtime",
            address = %place,
            device = args.device_id,
            "P4Runtime on {place}, device {}{gnmi}{tls}",
            args.device_id
        );
    }
    Ok((file, Some(device)))
}

/// Applies the settings of queues and ports from the entries file or from the stored state, before the first client and
/// the first frame.
pub(super) fn make_settings(
    begun: &mut Begun,
    control: &Control,
    cores: &mut [Core],
) -> Result<(), Failure> {
    let settings = begun.settings.all();
    let count = settings.len();
    if count == 0 {
        return Ok(());
    }
    let asking = control.clone();
    let thread = std::thread::Builder::new().name("settings".into());
    let made = thread.spawn(move || queues::restore(&asking, &settings));
    let made = made.map_err(|error| format!("settings of queues: {error}"))?;
    while !made.is_finished() {
        // They are sent like later requests, to workers that do nothing else yet.
        cores.iter_mut().for_each(|core| core.serve_control(Time::ZERO));
        std::thread::sleep(BETWEEN_COMMANDS);
    }
    let wrong = made.join().map_err(|_| "settings of queues: a defect of this program")?;
    for one in &wrong {
        tracing::error!(event = "state", "settings: not made: {one}");
        begun.settings.note_made(&one.settings, false);
    }
    let back = count - wrong.len();
    if back > 0 {
        let (said, are) = (counted(back, "setting"), if back == 1 { "is" } else { "are" });
        tracing::info!(event = "state", back, "{said} of queues and ports {are} back");
    }
    Ok(())
}

/// Ports that another reading of `--ports` removed lose their settings; those that were added again, as another port of
/// the same number or on another cable, have them again. Groups that depend on links follow.
pub(super) fn follow_ports(file: &mut PortFile, device: &Arc<Device>) {
    let device = Arc::clone(device);
    file.on_change(move |changed| {
        let failed = |why: &dyn Display| tracing::error!(event = "state", "settings: {why}");
        for port in &changed.gone {
            let forgotten = device.control.unit().and_then(|unit| device.forget_port(unit, *port));
            forgotten.unwrap_or_else(|why| failed(&why));
        }
        let mut kept = device.settings().all();
        kept.retain(|(port, ..)| changed.back.contains(port));
        let wrong = queues::restore(&device.control, &kept);
        let mut settings = device.settings();
        kept.iter().for_each(|one| settings.note_made(one, true));
        for one in &wrong {
            settings.note_made(&one.settings, false);
            failed(one);
        }
        drop(settings);
        device.look_at_links();
    });
}

/// Serves the page for browsers; returns its address.
pub(super) fn page(
    bound: Option<http::Bound>,
    control: &Control,
    name: &str,
) -> Result<Option<SocketAddr>, Failure> {
    let Some(bound) = bound else { return Ok(None) };
    let address = bound.address();
    web::serve(bound, control.clone(), name)?;
    Ok(Some(address))
}

/// The stored state of the last run.
pub(super) fn begin(args: &RunArgs, control: &Control, loaded: &Loaded) -> Result<Begun, Failure> {
    let Some(folder) = &args.state else { return Ok(Begun::without_store(loaded)) };
    let failed = |text: &str| tracing::error!(event = "state", "{text}");
    let begun = persist::begin(folder, control, loaded, failed)?;
    let folder = folder.display();
    for text in &begun.says {
        tracing::info!(event = "state", %folder, "--state {folder}: {text}");
    }
    if let Some(entries) = args.program.entries.as_deref().filter(|_| begun.is_back) {
        let entries = entries.display();
        tracing::warn!(
            event = "state",
            "--state {folder} has what was written before, in the place of --entries {entries}: `wireyard restore {entries}` puts that \
             file in its place"
        );
    }
    begun.complaints.iter().for_each(|text| failed(text));
    Ok(begun)
}

/// Whether the command line or the configuration requests the kernel's interfaces on the device.
pub(super) fn wants_linux(args: &RunArgs, loaded: &Loaded) -> bool {
    let section = loaded.config.as_ref().and_then(|config| config.linux.as_ref());
    args.linux.is_some() || section.is_some_and(|section| section.mirror)
}

/// A thread in the network namespace of the kernel's tables, if they are requested: confined as the switch will be, and
/// waiting.
pub(super) fn namespace(
    args: &RunArgs,
    loaded: &Loaded,
    confinement: Option<Confinement>,
) -> Result<Option<Namespace>, Failure> {
    if !wants_linux(args, loaded) {
        return Ok(None);
    }
    if !linux::is_mapped(&loaded.program) {
        return Err(format!(
            "program {} says nothing of the kernel's tables (`linux:`): programs/linux_router does",
            loaded.program.name
        )
        .into());
    }
    let section = loaded.config.as_ref().and_then(|config| config.linux.as_ref());
    let configured = section.and_then(|section| section.namespace.clone());
    let name = args.linux.clone().flatten().or(configured);
    let confine = move || Ok(confinement.map_or(Ok(()), |it| it.enter_thread().map(drop))?);
    Ok(Some(Namespace::enter(name, confine)?))
}

/// Starts the kernel's interfaces on the device, from that thread.
pub(super) fn linux(
    loaded: &Loaded,
    cores: &mut [Core],
    namespace: Option<Namespace>,
) -> Result<Option<Handle>, Failure> {
    let Some(namespace) = namespace else { return Ok(None) };
    let section =
        loaded.config.as_ref().and_then(|config| config.linux.clone()).unwrap_or_default();
    let ports = cores.iter().enumerate().flat_map(|(worker, core)| core.ports().places(worker));
    let options = linux::Options {
        namespace: None,
        names: section.interfaces,
        traffic_class: section.traffic_class,
        ports: ports.collect(),
    };
    let control = Control::of(&cores[0]).ok_or("the device has no control handle")?.clone();
    Ok(Some(linux::start_in(namespace, control, options, Box::new(log::note))?))
}
