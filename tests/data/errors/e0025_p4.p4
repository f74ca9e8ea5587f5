control c(inout bit<8> x) {
    apply { x = 1; }
}
control proto(inout bit<8> x);
package top(proto p);
top(c()) main;
