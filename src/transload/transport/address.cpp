#include "transload/transport/address.hpp"

#include <charconv>

#include "transload/base/error.hpp"

namespace transload {

Address Address::parse(std::string_view const whole) {
  auto const wrong = [&](std::string_view what) { raise(ErrorKind::unsupported, cat("address \"", whole, "\": ", what)); };
  std::string_view text = whole;
  for (std::string_view const scheme : {"transload://", "transload+tls://"}) {
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  }
  Address address;
  std::string_view port;
  if (text.starts_with('[')) {
    auto const end = text.find(']');
    if (end == std::string_view::npos) wrong("the bracket is not closed");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (auto const colon = text.find(':'); colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos) {
    address.host = text.substr(0, colon);
    port = text.substr(colon);
  } else {
    address.host = text;  // without a port; more than one colon is IPv6
  }
  if (address.host.find('/') != std::string::npos) wrong("a host has no slash");
  if (!port.empty()) {
    if (port.front() != ':') wrong("a colon must come before the port");
    port.remove_prefix(1);
    auto const [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error != std::errc{} || end != port.data() + port.size()) wrong("a port is a number in 0 … 65535");
  }
  return address;
}

std::string Address::text() const {
  bool const bracket = host.find(':') != std::string::npos;
  return cat(bracket ? "[" : "", host, bracket ? "]:" : ":", port);
}

}  // namespace transload
