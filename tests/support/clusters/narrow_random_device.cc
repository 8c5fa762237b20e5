// std::random_device with few different values (environment: NARROW_BITS).  TensorFlow seeds the ids of its calls with
// it, so that a task soon receives an id a second time.  Preloaded by tests/support/clusters/refusals.py.
#include <cstdlib>
#include <fcntl.h>
#include <random>
#include <unistd.h>

namespace std {
random_device::result_type random_device::_M_getval() {
  static const char* bits = getenv("NARROW_BITS");
  static const int file = open("/dev/urandom", O_RDONLY);
  unsigned value;
  if (read(file, &value, sizeof value) != sizeof value) abort();
  return bits ? value & ((1u << atoi(bits)) - 1) : value;
}
}  // namespace std
