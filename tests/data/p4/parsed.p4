// What a parser does to headers without reading them, value sets of several keys, what `exit` leaves, and loops in loops.
#include <core.p4>
#include <v1model.p4>

header kind_t {
    bit<8>  a;
    bit<16> b;
    bit<8>  seen;
}
header note_t {
    bit<8> x;
    bit<8> y;
}
struct headers_t {
    kind_t kind;
    note_t note;
    kind_t copy;
    kind_t second;
}
struct none_t { }
struct inner_t { bit<16> b; }
struct known_t {
    bit<8>  a;
    inner_t inner;
}

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    value_set<known_t>(4) known;
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.a, hdr.kind.b) {
            known: found;
            (1, 0x0100 &&& 0xff00): noted;
            (2, _): copied;
            default: accept;
        }
    }
    state found {
        hdr.kind.seen = 0xaa;
        transition accept;
    }
    state noted {
        hdr.note.setValid();
        hdr.note.y = 7;
        transition accept;
    }
    state copied {
        hdr.copy = hdr.kind;
        hdr.kind.seen = 1;
        // Not valid, so the other one is not either.
        hdr.note = { 1, 2 };
        hdr.copy = hdr.second;
        hdr.second = hdr.kind;
        hdr.kind.setInvalid();
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }

control Counts(inout bit<8> value, in bit<8> ends) {
    apply {
        value = value + 1;
        if (ends == 9) {
            exit;
        }
        value = value + 1;
    }
}
control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    Counts() counts;
    action counted(inout bit<8> value) {
        value = value + 1;
        if (hdr.kind.a == 8) {
            exit;
        }
    }
    action twice(inout bit<8> value) {
        counted(value);
        value = value + 0x10;
    }
    apply {
        std.egress_spec = 2;
        counts.apply(hdr.kind.seen, hdr.kind.a);
        twice(hdr.kind.seen);
        if (hdr.kind.a == 7) {
            for (bit<8> i = 0; i < hdr.kind.b[7:0]; i = i + 1) {
                for (bit<8> j = 0; j < hdr.kind.b[7:0]; j = j + 1) {
                    hdr.kind.seen = hdr.kind.seen + 1;
                }
            }
        }
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
