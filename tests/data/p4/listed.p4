// What P4Info says of annotations, numbers, names and types that no program of the collection has.
#include <core.p4>
#include <v1model.p4>

const int N = 2;
const bit<8> LOW = 0b1111;

type bit<16> place_t;
type place_t way_t;
@p4runtime_translation("example.org/port", string)
type bit<9> outside_t;
type outside_t inside_t;

header kind_t { bit<8> a; int<16> s; @name("bee") bit<8> b; }
struct inner_t { bit<16> x; @name("why") bit<16> y; }
@controller_header("packet_in")
header in_t { @id(2) bit<8> reason; bit<16> port; bit<8> rest; }
@controller_header("packet_out")
header out_t { @name("gone") bit<8> first; inner_t two; }
struct kept_t { kind_t h; @name("renamed") way_t way; error why; }
struct set_t { @match(ternary) bit<8> one; @id(1) bit<8> two; @optional bit<8> three; }

struct headers { kind_t h; kind_t[3] st; @name(".alone") kind_t single; in_t inn; out_t outt; }
struct meta_t { way_t way; inside_t inside; bit<8> m; error e; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    value_set<set_t>(4) known;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b, meta.m) { known: accept; default: reject; }
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<kept_t>(8) cells;
    @max_group_size(4) @selector_size_semantics("sum_of_members") @max_member_weight(9) @mode("fair")
    action_selector(HashAlgorithm.crc16, 64, 10) members;
    @selector_size_semantics("sum_of_weights")
    action_selector(HashAlgorithm.crc16, 32, 10) weights;

    action inner() { hdr.h.b = 1; }
    action twice(@id(2) bit<8> x, @alias("zed") bit<8> y, @brief("the way") way_t z) { inner(); hdr.h.a = x + y; meta.way = z; }
    @hidden action unseen() { inner(); }
    @brief("writes b") @description("what follows is the value") action direct(bit<8> given) { hdr.h.b = given; }
    @alias("nobody") @format(HEX) @e[] @pair[one=1+1, two="x" ++ "y"]
    action noted() {}

    table keys {
        key = {
            hdr.h.a : selector;
            hdr.h.b : exact;
            hdr.st[N].a : exact;
            hdr.h.a & 0xF0 : exact;
            hdr.single.b : exact;
            hdr.single.isValid() : exact;
            meta.e : exact;
            meta.inside : exact @id(3);
            meta.way : exact @name("way") @id(7);
        }
        actions = { twice; unseen; @tableonly @weight(3 , "a b") noted; @defaultonly NoAction; }
        default_action = NoAction();
        implementation = members;
        size = 0;
    }
    @hidden table hidden { actions = { noted; } default_action = noted(); }
    @brief("more of it") table more {
        key = { hdr.h.a : exact @description("the first"); hdr.h.b : selector; }
        actions = { noted; NoAction; }
        implementation = weights;
        const entries = {}
    }
    apply {
        keys.apply();
        hidden.apply();
        more.apply();
        direct(7);
        switch (LOW) {
            8w1: { direct(8); }
            8w15: { inner(); }
            default: { unseen(); }
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply {} }

@pkginfo(name="listed, all of it", version="1.2", arch="mine")
@platform_property(multicast_group_table_size=10)
@other("kept") @brief("not kept") @kept[1]
V1Switch(P(), V(), I(), E(), U(), D()) main;
