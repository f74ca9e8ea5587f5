// Macros as in C (what is joined, what is read again, what conditions look at), and parts of constants that `...` fills.
#include <core.p4>
#define MODEL <v1model.p4>
#include MODEL

#define CAT(a, b) a ## b
#define CAT2(a, b) CAT(a, b)
#define COUNT 2
#define THREE(a, b, c) a ## b ## c
#define TWICE(x) x x
#define CALLED(x) x + 1
#define WIDE(n) 8w0x ## n
#define NAMED CALLED
#define CAT_SELF CAT_SELF
#define TEXT(x) #x
#define CALL(name, ...) name(__VA_ARGS__)
#if 0
it's not read: an open " and a sign € are nothing
#endif
# 7 "another.p4"
#if 0 && 1 / 0
#error an operand that does not matter was looked at
#elif 1 || 1 % 0
#define REACHED 0x10
#endif
#if (1 ? 2 : 1 / 0) == 2 && !(0 ? 1 / 0 : 0)
#define CHOSEN 0x20
#endif
#if 0xFFu > 3 && 2UL == 2 && 010 == 8
#define TYPED 0x01 /* goes on
   here */ + 0x02
#endif
// This line goes on: \
#error in a comment

enum bit<8> how_t { none = 3, some = 4 }
enum plain_t { first, second }
struct inner_t { bit<8> p; bit<8> q; bool set; how_t how; plain_t plain; error wrong; }
struct outer_t { bit<8> v; inner_t inner; tuple<bit<8>, bit<8>> two; }
const outer_t LISTED = { 7, ... };
const outer_t RECORDED = { v = 1, inner = { q = 9, ... }, ... };
const outer_t NONE = ...;
const tuple<bit<8>, bit<16>> PAIR = { 5, ... };
const bit<8> SUM = LISTED.v + LISTED.inner.p + RECORDED.inner.q + RECORDED.inner.p + NONE.two[1] + (bit<8>) PAIR[1];

header h_t { bit<8> x2; bit<8> x3; bit<8> x4; bit<8> x5; bit<8> x6; bit<8> x7; bit<8> x8; bit<8> x9; }
struct headers { h_t h; }
struct meta_t { bit<8> v2; bit<(SUM)> wide; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}

const string SAID = TEXT(a "b" + 0x1F);
const bool CHECKED = static_assert(SAID == "a \"b\" + 0x1F", "as it is written");

control V(inout headers hdr, inout meta_t meta) { apply {} }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        meta.CAT2(v, COUNT) = 0x40;
        hdr.h.CAT2(x, COUNT) = meta.v2 + REACHED + CHOSEN;
        CALL(log_msg, "{} {}", { hdr.h.x2, hdr.h.x3 });
        CALL(mark_to_drop, sm);
        sm.egress_spec = 2;
        hdr.h.THREE(x, , 3) = WIDE(5) + THREE(0, x, 2);
        hdr.h.CAT(x4,) = NAMED(THREE(8, w, 6));
        hdr.h.CAT(, x5) = SUM;
        TWICE(hdr.h.x6 = hdr.h.x6 + 1;)
        hdr.h.x9 = TYPED;
        if (LISTED.inner.set || RECORDED.inner.plain != plain_t.first) { hdr.h.x7 = 1; }
        if (NONE.inner.wrong == error.NoError && NONE.inner.how != how_t.none) { hdr.h.x8 = 2; }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
