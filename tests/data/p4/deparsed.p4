// Deparsers: `exit`, what is written behind its `emit`, elements of stacks beside the whole; headers that egress reads and that do not leave.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> a; bit<8> b; }
header item_t { bit<8> v; }
header_union either_t { item_t one; kind_t two; }
struct headers_t { kind_t h; item_t[3] items; item_t gone; item_t[2] lost; either_t either; }
struct meta_t { item_t kept; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.gone);
        packet.extract(hdr.lost.next);
        packet.extract(hdr.lost.next);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) { apply { if (hdr.h.kind == 30) { exit; } } }
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.h.kind == 30) { hdr.h.a = 1; }
        if (hdr.h.kind == 8) { hdr.h.b = (bit<8>) std.instance_type; }
        if (hdr.h.kind == 21) { meta.kept.setValid(); meta.kept.v = 5; hdr.gone.setInvalid(); }
    }
}
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.kind == 20) {
            if (hdr.gone.isValid()) { hdr.h.a = hdr.gone.v; }
            if (hdr.lost[1].isValid()) { hdr.h.b = hdr.lost[1].v; }
        } else if (hdr.h.kind == 21) {
            if (meta.kept.isValid()) { hdr.h.a = meta.kept.v; }
            if (hdr.gone.isValid()) { hdr.h.b = 0xff; }
        } else if (hdr.h.kind == 22) {
            if (hdr.gone.isValid()) { hdr.h.a = hdr.gone.v; }
            exit;
        } else if (hdr.h.kind == 8 && hdr.h.b == 0) {
            recirculate_preserving_field_list(0);
        } else if (hdr.h.kind == 8) {
            hdr.h.a = hdr.h.a + 1;
        }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) {
    action stops() { exit; }
    table t {
        key = { hdr.h.kind: exact; }
        actions = { stops; NoAction; }
        const default_action = NoAction();
        const entries = { 31: stops(); }
    }
    apply {
        t.apply();
        if (hdr.h.kind == 31) { hdr.h.a = 1; }
        if (hdr.h.kind == 32) { hdr.h.a = 1; }
    }
}

control Ends(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.items[0]);
        if (hdr.h.kind == 2) { exit; }
        packet.emit(hdr.items[1]);
    }
}
control Sets(inout bit<8> x, out bit<8> y) {
    apply {
        x = 9;
        y = 8;
        exit;
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    Ends() ends;
    Sets() sets;
    item_t z;
    item_t y;
    either_t u;
    action ending(bit<8> at) {
        if (hdr.h.a == at) { exit; }
        z.v = z.v + 1;
    }
    action stopping() { z.v = 0x77; exit; }
    table stops {
        key = { hdr.h.a: exact; }
        actions = { stopping; NoAction; }
        const default_action = NoAction();
        const entries = { 1: stopping(); }
    }
    apply {
        packet.emit(hdr.h);
        z.setValid();
        z.v = hdr.h.b;
        switch (hdr.h.kind) {
            5: {
                packet.emit(hdr.items[1]);
                packet.emit(hdr.items);
            }
            1: {
                if (hdr.h.a == 1) { exit; }
                packet.emit(hdr.items);
            }
            2: { ends.apply(packet, hdr); }
            3: {
                packet.emit(z);
                z.v = 2;
                packet.emit(z);
            }
            4: {
                packet.emit(z);
                z.v = 2;
            }
            6: {
                ending(1);
                packet.emit(z);
                ending(2);
                packet.emit(z);
            }
            7: {
                if (stops.apply().hit) { packet.emit(hdr.items[2]); }
                packet.emit(hdr.items[1]);
            }
            8: {
                if (hdr.h.a == 0) { exit; }
                packet.emit(hdr.items[0]);
            }
            9: {
                switch (stops.apply().action_run) {
                    stopping: { packet.emit(hdr.items[2]); }
                    NoAction: { packet.emit(hdr.items[1]); }
                }
                packet.emit(z);
            }
            10: {
                for (bit<8> i in 0 .. 2) {
                    if (hdr.h.a == i) { exit; }
                    packet.emit(hdr.items[(bit<2>) i]);
                }
            }
            11: {
                y = z;
                packet.emit(y);
                y.setInvalid();
            }
            12: {
                u.one.setValid();
                u.one.v = 1;
                packet.emit(u);
                u.two = hdr.h;
                packet.emit(u);
            }
            13: {
                packet.emit(hdr.items);
                packet.emit(hdr.items[1]);
            }
            14: {
                y.setValid();
                sets.apply(z.v, y.v);
                packet.emit(z);
                packet.emit(y);
            }
            15: {
                packet.emit(z);
                stops.apply();
                packet.emit(z);
            }
            default: { }
        }
    }
}

V1Switch(Parse(), Verify(), In(), Eg(), Compute(), Deparse()) main;
