// Under the address sanitizer a request for more memory than there is fails as it does elsewhere, so that
// Error{exhausted} can be tested.
extern "C" char const* __asan_default_options();
extern "C" char const* __asan_default_options() { return "allocator_may_return_null=1"; }
