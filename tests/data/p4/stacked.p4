// Stacks in a parser: `next` and `last` go by what was extracted as `next`, whatever else makes elements valid, and are errors where they are not there.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> last; bit<8> index; bit<8> wrong; }
header x_t { bit<8> x; bit<8> y; }
header y_t { bit<24> z; }
header_union either_t { x_t x; y_t y; }
struct headers { kind_t h; x_t[3] st; x_t[3] other; x_t[2] plain; either_t[2] either; }
struct meta_t { bit<8> last; bit<8> index; }

parser Sub(packet_in packet, out x_t[3] st) {
    state start { packet.extract(st.next); transition accept; }
}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            0: by_number;
            1: assigned;
            2: made_valid;
            3: made_invalid;
            4: circle;
            5: high;
            6: written;
            7: full;
            8: empty;
            9: empty_counted;
            10: empty_union;
            11: where_it_matters;
            12: pushed;
            13: popped;
            14: copied;
            15: begun;
            16: extracted;
            17: moved_unions;
            default: accept;
        }
    }
    state by_number { packet.extract(hdr.st[0]); packet.extract(hdr.st.next); transition done; }
    state assigned { hdr.st[0] = { 7, 7 }; packet.extract(hdr.st.next); transition done; }
    state made_valid { hdr.st[0].setValid(); packet.extract(hdr.st.next); transition done; }
    state made_invalid {
        packet.extract(hdr.st.next);
        hdr.st[0].setInvalid();
        packet.extract(hdr.st.next);
        transition done;
    }
    state circle {
        packet.extract(hdr.st.next);
        transition select(hdr.st.last.y) { 0: done; default: again; }
    }
    state again {
        hdr.st[0].setInvalid();
        hdr.st[1].setInvalid();
        hdr.st[2].setInvalid();
        transition circle;
    }
    state high {
        packet.extract(hdr.st[1]);
        packet.extract(hdr.st.next);
        packet.extract(hdr.st.next);
        transition done;
    }
    state written {
        hdr.st.next.setValid();
        hdr.st.next.x = 7;
        hdr.st.next.y = hdr.st.next.x + 1;
        meta.last = hdr.st.next.y;
        transition accept;
    }
    state full {
        packet.extract(hdr.st.next);
        packet.extract(hdr.st.next);
        packet.extract(hdr.st.next);
        hdr.st.next.setInvalid();
        transition accept;
    }
    state empty { transition select(hdr.plain.last.y) { 0: accept; default: accept; } }
    state empty_counted { meta.last = hdr.st.last.x; transition accept; }
    state empty_union { transition select(hdr.either.last.x.y) { 0: accept; default: accept; } }
    state where_it_matters {
        if (hdr.h.last == 1 && hdr.plain.last.x == 0) { meta.last = 9; }
        meta.index = hdr.h.last == 2 ? hdr.plain.last.x : 8;
        transition accept;
    }
    state pushed {
        packet.extract(hdr.st.next);
        hdr.st.push_front(1);
        packet.extract(hdr.st.next);
        transition done;
    }
    state popped {
        packet.extract(hdr.st.next);
        packet.extract(hdr.st.next);
        hdr.st.pop_front(1);
        packet.extract(hdr.st.next);
        transition done;
    }
    state copied {
        packet.extract(hdr.st.next);
        hdr.other = hdr.st;
        packet.extract(hdr.other.next);
        meta.last = hdr.st.last.x;
        meta.index = (bit<8>) hdr.other.lastIndex;
        transition accept;
    }
    state begun {
        packet.extract(hdr.st.next);
        Sub.apply(packet, hdr.st);
        transition done;
    }
    state extracted { packet.extract(hdr.plain.next); transition seen; }
    state seen {
        meta.last = hdr.plain.last.x;
        meta.index = (bit<8>) hdr.plain.lastIndex;
        transition accept;
    }
    state moved_unions {
        packet.extract(hdr.either.next.x);
        hdr.either.push_front(1);
        meta.last = hdr.either.last.x.x;
        meta.index = (bit<8>) hdr.either.lastIndex;
        transition accept;
    }
    state done {
        meta.last = hdr.st.last.x;
        meta.index = (bit<8>) hdr.st.lastIndex;
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 2;
        hdr.h.last = meta.last;
        hdr.h.index = meta.index;
        if (sm.parser_error == error.StackOutOfBounds) { hdr.h.wrong = 1; }
        else if (sm.parser_error != error.NoError) { hdr.h.wrong = 2; }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.st);
        packet.emit(hdr.other);
        packet.emit(hdr.plain);
        packet.emit(hdr.either);
    }
}

V1Switch(P(), V(), I(), E(), V(), D()) main;
