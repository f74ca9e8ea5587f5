//! The service: requests to read and to set the tree.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::set;
use super::subscribe;
use super::tree::{self, Entry, Seen, Tree};
use crate::control::{Control, ControlError};
use crate::core::PortReport;
use crate::management::service::Management;
use crate::p4runtime::proto::gnmi::g_nmi_server::GNmi;
use crate::p4runtime::proto::gnmi::get_request::DataType;
use crate::p4runtime::proto::gnmi::typed_value::Value;
use crate::p4runtime::proto::gnmi::{
    CapabilityRequest, CapabilityResponse, Encoding, GetRequest, GetResponse, ModelData,
    Notification, Path, SetRequest, SetResponse, SubscribeRequest, SubscribeResponse, TypedValue,
    Update,
};
use crate::ports::{LinkState, PortNumber};

/// The only model.
const MODEL: &str = "openconfig-interfaces";
/// Maximum age of an answer.
const FRESH: Duration = Duration::from_millis(50);
/// Maximum number of subscriptions at a time.
const STREAMS_MAX: usize = 64;
/// Maximum number of messages that wait for a client that does not read.
const WAITING_MAX: usize = 64;
/// Maximum number of paths of one request.
pub(super) const PATHS_MAX: usize = 4096;

/// A tree, and when it was made.
type Fetched = (Instant, Arc<Tree>);

/// The service of one device.
#[derive(Clone)]
pub struct Service {
    management: Management,
    tree: Arc<Mutex<Option<Fetched>>>,
    streams: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

/// A stream, counted while this exists.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service {
    /// The service of a device.
    pub fn new(management: Management) -> Service {
        Service { management, tree: Arc::default(), streams: Arc::default() }
    }

    /// The tree, at most [`FRESH`] old.
    pub(super) async fn tree(&self) -> Result<Arc<Tree>, Status> {
        let mut known = self.tree.lock().await;
        if let Some((at, tree)) = known.as_ref()
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(tree));
        }
        let ports = self.management.do_it(|device| seen(device.control())).await?;
        let tree = Arc::new(tree::of(&ports));
        *known = Some((Instant::now(), Arc::clone(&tree)));
        Ok(tree)
    }

    fn open(&self) -> Result<Counted, Status> {
        let counted = Counted(Arc::clone(&self.streams));
        match self.streams.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX {
            true => Ok(counted),
            false => Err(Status::resource_exhausted(format!(
                "{STREAMS_MAX} subscriptions are open already; end one first"
            ))),
        }
    }
}

/// The ports of a device, with their links.
fn seen(control: &Control) -> Result<Vec<Seen>, ControlError> {
    let states = control.ports()?;
    let shut = |port: PortNumber| states.iter().any(|state| state.port == port && state.shut);
    let links = control.links()?.into_iter();
    let one = |(report, link): (PortReport, LinkState)| {
        let is_shut = shut(report.port);
        (report, link, is_shut)
    };
    Ok(links.map(one).collect())
}

/// The prefix of the notifications for a request: the target of its prefix (gNMI specification 0.10, section 2.2.2.1).
pub(super) fn reflected(prefix: Option<&Path>) -> Option<Path> {
    let target = prefix.map(|prefix| prefix.target.clone())?;
    (!target.is_empty()).then(|| Path { target, ..Path::default() })
}

/// Makes a notification from leaves.
pub(super) fn notification<'a>(
    prefix: Option<Path>,
    entries: impl Iterator<Item = &'a Entry>,
    encoding: Encoding,
) -> Notification {
    let update = |entry: &Entry| Update {
        path: Some(entry.path()),
        val: Some(entry.leaf.typed(encoding)),
        duplicates: 0,
    };
    Notification {
        timestamp: crate::time_of_day::signed_ns(),
        prefix,
        update: entries.map(update).collect(),
        ..Notification::default()
    }
}

/// Checks that an encoding is supported.
pub(super) fn encoding(number: i32) -> Result<Encoding, Status> {
    match Encoding::try_from(number) {
        Ok(encoding @ (Encoding::Json | Encoding::JsonIetf | Encoding::Proto)) => Ok(encoding),
        _ => Err(Status::unimplemented("encodings are PROTO and JSON_IETF, or none")),
    }
}

/// Checks that the model is among those that a request names, if it names any (gNMI specification 0.10, section 2.6.1).
pub(super) fn check_models(models: &[ModelData]) -> Result<(), Status> {
    match models.is_empty() || models.iter().any(|model| model.name == MODEL) {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!("use_models: this device has {MODEL}"))),
    }
}

/// A path in its text form.
pub(super) fn text(path: &Path) -> String {
    let mut text = String::new();
    for elem in &path.elem {
        text += &format!("/{}", elem.name);
        elem.key.iter().for_each(|(key, value)| text += &format!("[{key}={value}]"));
    }
    if text.is_empty() { "/".to_owned() } else { text }
}

/// Checks that a prefix and a path are of the origin of the model (gNMI specification 0.10, section 2.2.2).
pub(super) fn check_origin(prefix: Option<&Path>, path: &Path) -> Result<(), Status> {
    let origins = prefix.into_iter().chain([path]).map(|path| path.origin.as_str());
    match origins.into_iter().find(|origin| !matches!(*origin, "" | "openconfig")) {
        None => Ok(()),
        Some(other) => Err(Status::invalid_argument(format!(
            "there is nothing of origin {other}: write openconfig, or none"
        ))),
    }
}

/// Maximum number of values that the paths of a request select together: an answer has all, and a subscription keeps and compares each.
const VALUES_MAX: usize = 20_000;
/// Maximum number of comparisons of a path with a leaf, for one request or at one time of a subscription: some 25 ms, in which no other
/// request is answered. A path that names its interface is compared with the leaves of that one.
const COMPARISONS_MAX: usize = 1 << 20;

/// Checks that the paths of a request select no more values of this kind than fit, and compare with few enough leaves.
pub(super) fn check_values<'p>(
    tree: &Tree,
    kind: DataType,
    paths: impl Iterator<Item = &'p Path> + Clone,
) -> Result<(), Status> {
    let comparisons: usize = paths.clone().map(|path| tree.near(path).len()).sum();
    if comparisons > COMPARISONS_MAX {
        return Err(Status::resource_exhausted(format!(
            "these are too many paths for the {} values of this device: name the interfaces, ask for /interfaces, or for fewer at once",
            tree.entries().len()
        )));
    }
    let selects =
        |path: &Path| tree.under(path).filter(|entry| tree::is_of_type(entry, kind)).count();
    let values: usize = paths.map(selects).sum();
    if values > VALUES_MAX {
        return Err(Status::resource_exhausted(format!(
            "the paths select {values} values, at most {VALUES_MAX}"
        )));
    }
    Ok(())
}

/// Checks that a path, behind its prefix, is one of the model; returns both as one.
pub(super) fn known(prefix: Option<&Path>, path: &Path) -> Result<Path, Status> {
    check_origin(prefix, path)?;
    let path = tree::join(prefix, path);
    match tree::is_known(&path) {
        true => Ok(path),
        false => Err(Status::not_found(format!(
            "{} is not there: this device has interfaces/interface with name, config, state and state/counters",
            text(&path)
        ))),
    }
}

#[tonic::async_trait]
impl GNmi for Service {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send>>;

    async fn capabilities(
        &self,
        _: Request<CapabilityRequest>,
    ) -> Result<Response<CapabilityResponse>, Status> {
        let model = ModelData {
            name: MODEL.to_owned(),
            organization: "OpenConfig working group".to_owned(),
            version: "3.0.0".to_owned(),
        };
        let encodings = [Encoding::Proto, Encoding::JsonIetf];
        Ok(Response::new(CapabilityResponse {
            supported_models: vec![model],
            supported_encodings: encodings.map(|encoding| encoding as i32).to_vec(),
            g_nmi_version: "0.10.0".to_owned(),
        }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let request = request.into_inner();
        if request.path.len() > PATHS_MAX {
            let text = format!("a request has at most {PATHS_MAX} paths");
            return Err(Status::invalid_argument(text));
        }
        let encoding = encoding(request.encoding)?;
        check_models(&request.use_models)?;
        let Ok(kind) = DataType::try_from(request.r#type) else {
            return Err(Status::invalid_argument("unknown type: it is ALL, CONFIG or STATE"));
        };
        let tree = self.tree().await?;
        let join = |path| known(request.prefix.as_ref(), path);
        let paths = request.path.iter().map(join).collect::<Result<Vec<_>, Status>>()?;
        check_values(&tree, kind, paths.iter())?;
        let one = |path: Path| {
            let found = tree.under(&path);
            let found: Vec<&Entry> = found.filter(|entry| tree::is_of_type(entry, kind)).collect();
            let names_one = |key: &String| key != "*" && !tree.has(key);
            let mut keys = path.elem.iter().flat_map(|elem| elem.key.values());
            if let Some(name) = keys.find(|key| names_one(key)) {
                return Err(Status::not_found(format!("there is no interface {name}")));
            }
            if !path.elem.is_empty() {
                let prefix = reflected(request.prefix.as_ref());
                return Ok(notification(prefix, found.into_iter(), encoding));
            }
            // The whole tree is not a scalar: it is one document.
            let value = Value::JsonIetfVal(tree::document(&found));
            let val = Some(TypedValue { value: Some(value) });
            let update = vec![Update { path: Some(path), val, duplicates: 0 }];
            Ok(Notification {
                timestamp: crate::time_of_day::signed_ns(),
                prefix: reflected(request.prefix.as_ref()),
                update,
                ..Notification::default()
            })
        };
        let notification = paths.into_iter().map(one).collect::<Result<Vec<_>, Status>>()?;
        Ok(Response::new(GetResponse { notification }))
    }

    async fn set(&self, request: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        // The cached tree may be older than the request: it must not be used for the check, nor be read after the
        // request.
        let mut known = self.tree.lock().await;
        *known = None;
        let request = request.into_inner();
        let ports = self.management.do_it(|device| seen(device.control())).await?;
        let tree = tree::of(&ports);
        let (changes, response) = set::changes(&tree, &request)?;
        self.management.do_it(move |device| set::make(device, &tree, &changes)).await?;
        let timestamp = crate::time_of_day::signed_ns();
        Ok(Response::new(SetResponse { prefix: request.prefix, response, timestamp }))
    }

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let counted = self.open()?;
        let (outgoing, messages) = mpsc::channel(WAITING_MAX);
        tokio::spawn(subscribe::serve(self.clone(), request.into_inner(), outgoing, counted));
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4runtime::proto::gnmi::PathElem;

    /// `/interfaces/interface[name=NAME]/state/NAME-OF-LEAF`.
    fn path(interface: &str, leaf: &str) -> Path {
        let elem = |name: &str| PathElem { name: name.to_owned(), ..PathElem::default() };
        let mut elems = ["interfaces", "interface", "state", leaf].map(elem).to_vec();
        elems[1].key.insert("name".to_owned(), interface.to_owned());
        Path { elem: elems, ..Path::default() }
    }

    #[test]
    fn paths_select_and_compare_a_bounded_number_of_leaves() {
        let tree = Tree::of_interfaces(1024);
        let check = |paths: &[Path]| check_values(&tree, DataType::All, paths.iter());
        let named = |number: usize| path(&(number % 1024).to_string(), "oper-status");
        let each: Vec<Path> = (0..PATHS_MAX).map(named).collect();
        check(&each).expect("an interface is found by its name");
        let most = COMPARISONS_MAX / tree.entries().len();
        let none = vec![path("*", "mtu"); most + 1];
        check(&none[..most]).expect("the comparisons that are permitted");
        let refused = check(&none).unwrap_err();
        assert!(refused.message().contains("too many paths"), "{refused}");
        let many = vec![path("*", "oper-status"); VALUES_MAX / 1024 + 1];
        let refused = check(&many).unwrap_err();
        assert!(refused.message().contains("the paths select 20480 values"), "{refused}");
        let configured = check_values(&tree, DataType::Config, many.iter());
        configured.expect("values of another kind are not in the answer");
    }
}
