// Actions of the program that tables of ingress, of egress and of controls inside of both have: what `exit` and `mark_to_drop()` end and drop is that
// of the control around.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> a; bit<8> in_ingress; bit<8> in_egress; }
struct headers_t { kind_t h; }
struct none_t { }

action drops() { mark_to_drop(); }
action quits() { exit; }

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }
control Inner(inout bit<8> x, in bit<8> kind) {
    table t {
        key = { kind: exact; }
        actions = { quits; NoAction; }
        const default_action = NoAction();
        const entries = { 5: quits(); 6: quits(); }
    }
    apply {
        x = 7;
        t.apply();
        x = 0;
    }
}
control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    Inner() inner;
    table here {
        key = { hdr.h.kind: exact; }
        actions = { drops; quits; NoAction; }
        const default_action = NoAction();
        const entries = { 1: drops(); 3: quits(); }
    }
    table of_script {
        key = { hdr.h.kind: exact; }
        actions = { drops; quits; NoAction; }
        const default_action = NoAction();
    }
    apply {
        std.egress_spec = 2;
        of_script.apply();
        here.apply();
        if (hdr.h.kind == 5) { inner.apply(hdr.h.a, hdr.h.kind); }
        hdr.h.in_ingress = 1;
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    Inner() inner;
    table there {
        key = { hdr.h.kind: exact; }
        actions = { drops; quits; NoAction; }
        const default_action = NoAction();
        const entries = { 2: drops(); 4: quits(); }
    }
    table of_script_too {
        key = { hdr.h.kind: exact; }
        actions = { drops; quits; NoAction; }
        const default_action = NoAction();
    }
    apply {
        of_script_too.apply();
        there.apply();
        if (hdr.h.kind == 6) { inner.apply(hdr.h.a, hdr.h.kind); }
        hdr.h.in_egress = 1;
    }
}
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
