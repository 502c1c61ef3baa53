// Nothing but the headers that this target precompiles for the torch tests.
int main() {}
