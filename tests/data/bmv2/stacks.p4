// Stacks, and all that a parser does: stacks.json is the same program.
#include <core.p4>
#include <v1model.p4>

error { BadKind }
header first_t { bit<8> kind; bit<8> index; }
header hop_t { bit<1> last; bit<15> port; }
header text_t { bit<8> length; varbit<64> text; }
struct metadata { bit<8> top; bit<8> next; }
struct headers { first_t first; text_t text; hop_t[4] hops; }

parser ParserImpl(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(1024) known;
    state start {
        meta.top = packet.lookahead<first_t>().kind;
        bit<16> both = packet.lookahead<bit<16>>();
        meta.next = both[7:0];
        packet.extract(hdr.first);
        verify(hdr.first.kind != 0xee, error.BadKind);
        transition select(hdr.first.kind) {
            1: parse_hops;
            2: parse_text;
            0x10 &&& 0xf0: parse_skip;
            known: parse_hops;
            default: accept;
        }
    }
    state parse_hops {
        packet.extract(hdr.hops.next);
        transition select(hdr.hops.last.last) { 0: parse_hops; default: accept; }
    }
    state parse_text { packet.extract(hdr.text, (bit<32>)hdr.first.index << 3); transition accept; }
    state parse_skip { packet.advance(16); transition parse_hops; }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action pop_one() {
        standard_metadata.egress_spec = (bit<9>)hdr.hops[0].port;
        hdr.hops.pop_front(1);
    }
    action push_one(bit<15> port) {
        hdr.hops.push_front(1);
        hdr.hops[0].setValid();
        hdr.hops[0].port = port;
        hdr.hops[0].last = 0;
        standard_metadata.egress_spec = 2;
    }
    action at_index() {
        standard_metadata.egress_spec = 3;
        hdr.hops[hdr.first.index].port = hdr.hops[hdr.first.index].port + 1;
    }
    action copy_top() {
        hdr.hops[1] = hdr.hops[0];
        hdr.hops[0].setInvalid();
        hdr.first.kind = meta.top;
        hdr.first.index = meta.next;
        standard_metadata.egress_spec = 4;
    }
    table steps {
        key = { hdr.first.kind: ternary; hdr.hops[0].isValid(): exact; }
        actions = { pop_one; push_one; at_index; copy_top; NoAction; }
        default_action = NoAction();
        const entries = {
            (1, true): pop_one();
            (1 &&& 0x0f, true): at_index();
            (0x30, true): push_one(0x123);
            (0x40, true): copy_top();
            (2, false): NoAction();
        }
    }
    apply {
        if (standard_metadata.parser_error == error.BadKind) {
            hdr.first.kind = 0xff;
            standard_metadata.egress_spec = 6;
        } else {
            steps.apply();
        }
    }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control DeparserImpl(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.first); packet.emit(hdr.text); packet.emit(hdr.hops); }
}
V1Switch(ParserImpl(), nothing(), ingress(), egress(), nothing(), DeparserImpl()) main;
