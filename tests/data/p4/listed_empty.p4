// A program without `main` has an empty P4Info.
#include <core.p4>
#include <v1model.p4>

control C(inout bit<8> a) {
    action x() { a = 1; }
    table t { actions = { x; } default_action = x(); }
    apply { t.apply(); }
}
