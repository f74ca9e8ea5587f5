//! Subscriptions: the current values, then changed ones, or all of them at intervals.
//!
//! The sender waits for a client that does not read; meanwhile only the last values of its subscription are kept, so it
//! misses values in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};

use super::service::{
    Counted, PATHS_MAX, Service, check_models, check_values, encoding, known, notification,
    reflected,
};
use super::tree::{Entry, Leaf, Place, Tree};
use crate::p4runtime::proto::gnmi::get_request::DataType;
use crate::p4runtime::proto::gnmi::subscribe_request::Request as Asked;
use crate::p4runtime::proto::gnmi::subscribe_response::Response as Answer;
use crate::p4runtime::proto::gnmi::subscription_list::Mode;
use crate::p4runtime::proto::gnmi::{
    Encoding, Path, SubscribeRequest, SubscribeResponse, SubscriptionList, SubscriptionMode,
};

/// Interval at which changes are detected.
const LOOK: Duration = Duration::from_millis(100);

/// One path of a subscription.
struct Watch {
    path: Path,
    /// Interval at which all its values are sent; `None` to send changed values as they change.
    interval: Option<Duration>,
    /// A sample contains only changed values.
    only_changes: bool,
    due: Instant,
    /// The values sent last.
    sent: Vec<Entry>,
}

/// Leaves by their places, so that a check of many ports takes time in proportion to their number.
fn by_place(entries: &[Entry]) -> HashMap<Place<'_>, &Leaf> {
    entries.iter().map(|entry| (entry.place(), &entry.leaf)).collect()
}

/// A subscription.
struct Subscription {
    /// The prefix of its notifications.
    prefix: Option<Path>,
    watches: Vec<Watch>,
    /// The values of the device when the watches were checked last.
    checked: Option<Arc<Tree>>,
    encoding: Encoding,
    outgoing: Sender<Result<SubscribeResponse, Status>>,
}

/// `Err` ends the stream.
type Goes = Result<(), Option<Status>>;

/// Serves one stream to its end.
pub(super) async fn serve(
    service: Service,
    mut incoming: Streaming<SubscribeRequest>,
    outgoing: Sender<Result<SubscribeResponse, Status>>,
    counted: Counted,
) {
    if let Err(Some(status)) = stream(&service, &mut incoming, &outgoing).await {
        // A client that has disconnected needs no reason.
        let _ = outgoing.send(Err(status)).await;
    }
    drop(counted);
}

async fn stream(
    service: &Service,
    incoming: &mut Streaming<SubscribeRequest>,
    outgoing: &Sender<Result<SubscribeResponse, Status>>,
) -> Goes {
    let list = match incoming.message().await?.and_then(|message| message.request) {
        Some(Asked::Subscribe(list)) => list,
        Some(Asked::Poll(_)) => return Err(Some(wrong("a stream begins with `subscribe`"))),
        None => return Err(None),
    };
    let Ok(mode) = Mode::try_from(list.mode) else {
        return Err(Some(wrong("unknown mode: STREAM, ONCE and POLL are known")));
    };
    let mut subscription = subscription(&list, outgoing.clone())?;
    subscription.begin(service, !list.updates_only).await?;
    // False once the client has ended its half of the stream; its subscription continues.
    let mut listens = true;
    loop {
        match mode {
            Mode::Once => return Ok(()),
            Mode::Poll => match incoming.message().await?.and_then(|message| message.request) {
                Some(Asked::Poll(_)) => subscription.begin(service, true).await?,
                Some(Asked::Subscribe(_)) => {
                    return Err(Some(wrong("a stream has one `subscribe`")));
                }
                None => return Err(None),
            },
            Mode::Stream => {
                let due = subscription.watches.iter().map(|watch| watch.due).min();
                let due = due.unwrap_or_else(|| Instant::now() + LOOK);
                tokio::select! {
                    () = outgoing.closed() => return Err(None),
                    message = incoming.message(), if listens => match message? {
                        Some(_) => return Err(Some(wrong("a stream of mode STREAM takes one request"))),
                        None => listens = false,
                    },
                    () = sleep_until(due) => subscription.look(service).await?,
                }
            }
        }
    }
}

fn wrong(text: &str) -> Status {
    Status::invalid_argument(text)
}

fn subscription(
    list: &SubscriptionList,
    outgoing: Sender<Result<SubscribeResponse, Status>>,
) -> Result<Subscription, Option<Status>> {
    if list.subscription.len() > PATHS_MAX {
        return Err(Some(wrong("too many subscriptions in one request")));
    }
    let encoding = encoding(list.encoding)?;
    check_models(&list.use_models)?;
    let now = Instant::now();
    let mut watches = Vec::new();
    for one in &list.subscription {
        let path = one.path.clone().unwrap_or_default();
        let path = known(list.prefix.as_ref(), &path)?;
        if one.heartbeat_interval != 0 {
            return Err(Some(Status::unimplemented(
                "heartbeat_interval: values that do not change are not sent again",
            )));
        }
        let Ok(mode) = SubscriptionMode::try_from(one.mode) else {
            let text = "unknown mode: TARGET_DEFINED, ON_CHANGE and SAMPLE are known";
            return Err(Some(wrong(text)));
        };
        let interval = match mode {
            // 0 stands for the shortest interval of the device (gNMI specification 0.10, section 3.5.1.5.2). Shorter ones
            // are raised to it and not refused: clients give milliseconds here.
            SubscriptionMode::Sample => Some(LOOK.max(Duration::from_nanos(one.sample_interval))),
            SubscriptionMode::OnChange | SubscriptionMode::TargetDefined => None,
        };
        let only_changes = one.suppress_redundant;
        let due = now + interval.unwrap_or(LOOK);
        watches.push(Watch { path, interval, only_changes, due, sent: Vec::new() });
    }
    let prefix = reflected(list.prefix.as_ref());
    Ok(Subscription { prefix, watches, encoding, outgoing, checked: None })
}

impl Subscription {
    async fn send(&self, answer: Answer) -> Goes {
        let sent = self.outgoing.send(Ok(SubscribeResponse { response: Some(answer) })).await;
        sent.map_err(|_| None)
    }

    /// Checks, unless the interfaces are those of the last check, that the device has no more values than fit.
    fn check(&mut self, all: &Arc<Tree>) -> Goes {
        if self.checked.as_ref().is_some_and(|before| before.has_interfaces_of(all)) {
            return Ok(());
        }
        self.checked = Some(Arc::clone(all));
        let paths = self.watches.iter().map(|watch| &watch.path);
        check_values(all, DataType::All, paths).map_err(Some)
    }

    /// Sends all values, and the message that marks their end.
    async fn begin(&mut self, service: &Service, sends_values: bool) -> Goes {
        let all = service.tree().await?;
        self.check(&all)?;
        for at in 0..self.watches.len() {
            let watch = &mut self.watches[at];
            watch.sent = all.under(&watch.path).cloned().collect();
            if sends_values && !watch.sent.is_empty() {
                let message = notification(self.prefix.clone(), watch.sent.iter(), self.encoding);
                self.send(Answer::Update(message)).await?;
            }
        }
        self.send(Answer::SyncResponse(true)).await
    }

    /// Sends the values that are due.
    async fn look(&mut self, service: &Service) -> Goes {
        let now = Instant::now();
        let all = service.tree().await?;
        self.check(&all)?;
        for at in 0..self.watches.len() {
            let watch = &mut self.watches[at];
            if watch.due > now {
                continue;
            }
            watch.due = now + watch.interval.unwrap_or(LOOK);
            let found: Vec<Entry> = all.under(&watch.path).cloned().collect();
            let (before, there) = (by_place(&watch.sent), by_place(&found));
            let is_new = |entry: &Entry| before.get(&entry.place()) != Some(&&entry.leaf);
            let all_of_them = watch.interval.is_some() && !watch.only_changes;
            let new: Vec<&Entry> =
                found.iter().filter(|entry| all_of_them || is_new(entry)).collect();
            let mut message = notification(self.prefix.clone(), new.into_iter(), self.encoding);
            // Leaves that no longer exist: those of a removed port.
            let gone = watch.sent.iter().filter(|entry| !there.contains_key(&entry.place()));
            message.delete = gone.map(Entry::path).collect();
            watch.sent = found;
            if !message.update.is_empty() || !message.delete.is_empty() {
                self.send(Answer::Update(message)).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_come_later_are_counted() {
        let all = || Watch {
            path: Path::default(),
            interval: None,
            only_changes: false,
            due: Instant::now(),
            sent: Vec::new(),
        };
        let (outgoing, _messages) = tokio::sync::mpsc::channel(1);
        let mut subscription = Subscription {
            prefix: None,
            watches: (0..100).map(|_| all()).collect(),
            checked: None,
            encoding: Encoding::Proto,
            outgoing,
        };
        let mut check = |interfaces| subscription.check(&Arc::new(Tree::of_interfaces(interfaces)));
        check(0).expect("there is nothing");
        check(12).expect("19,200 values");
        let refused = check(13).unwrap_err().expect("a status");
        assert!(refused.message().contains("the paths select 20800 values"), "{refused}");
    }
}
