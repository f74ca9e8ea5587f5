// What programs of PINS, DASH and courses are written with: strings over several lines, pasted signs, numbers where a new type is wanted,
// hashes with polynomials that a controller may set, a selector of many members.
#include <core.p4>
#include <v1model.p4>

#define FIELD(name, field) hdr. ## name ## _v. ## field
#define WRITES(name, field) action write_ ## name ## (bit<8> value) { \
    hdr. ## name ## _v. ## field = value; \
}
#define LEFT 0x5

#if 0
an open " is nothing where nothing is read
#endif

@p4runtime_translation("", string)
type bit<8> place_t;
const place_t HOME = 7;
const place_t NEGATIVE = -1;
enum bit<8> Lists { kept = 1 };

header kind_t { bit<8> kind; bit<32> value; place_t place; bit<16> one; bit<32> two; }
header more_t { bit<8> first; bit<8> second; }
struct headers { kind_t kind; more_t left_v; more_t right_v; }
struct meta_t { place_t place; bit<16> key; bit<16> choice; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.kind);
        packet.extract(hdr.left_v);
        packet.extract(hdr.right_v);
        meta.place = 3;
        transition select(hdr.kind.place) {
            HOME: home;
            9: accept;
            default: accept;
        }
    }
    state home { meta.place = HOME; transition accept; }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    @max_group_size(256)
    action_selector(HashAlgorithm.identity, 31296, 16) members;
    WRITES(left, first)
    WRITES(right, second)
    action leave(bit<9> port) { sm.egress_spec = port; }
    @entry_restriction("
      // it isn't 0, and LEFT stays as it is
#if this is no directive
      key != 0 && key::mask == \"1\"; /* nor does this
      begin a comment */
    ") @brief("by the choice")
    table chosen {
        key = { meta.key: exact; meta.choice: selector; }
        actions = { leave; @defaultonly NoAction; }
        const default_action = NoAction;
        implementation = members;
        size = 16;
    }
    apply {
        sm.egress_spec = 2;
        write_left(FIELD(right, second) + LEFT);
        write_right(8w1);
        if (hdr.kind.kind == 1) {
            hash(hdr.kind.one, HashAlgorithm.crc16_custom, 16w0, { hdr.kind.value }, 32w0x10000);
            hash(hdr.kind.two, HashAlgorithm.crc32_custom, 32w0, { hdr.kind.value }, 64w0x100000000);
        } else {
            hash(hdr.kind.one, HashAlgorithm.crc16_custom, (bit<1>) 0, { hdr.kind.value }, (bit<16>) 28);
            hash(hdr.kind.two, HashAlgorithm.crc32_custom, (bit<16>) 0, { hdr.kind.value }, (bit<32>) 28);
        }
        hdr.kind.place = meta.place;
        if (hdr.kind.kind == 2) { hdr.kind.place = NEGATIVE; }
        chosen.apply();
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
