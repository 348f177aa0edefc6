// Package proxy is a reverse proxy between a contender and the API server that records the
// traffic. It records each request with its times, verb, object, answer and bytes, and each event
// of each watch. The measurements are computed from the record, outside the contender and in the
// same way for all.
//
// What it guarantees:
//
//   - It changes nothing but the address. If it does not reach the API server, it breaks the
//     contender's request off. The contender authenticates to the API server with
//     its own token. Both sides speak verified TLS and the protocol that the contender chose,
//     HTTP/2 or HTTP/1.1. Answers are passed on as they arrive, each piece of a watch at once.
//   - An event is stamped after it arrived from the API server and before it goes to the
//     contender. A request is stamped after its head arrived and before it is passed on. So the
//     time between the two stamps is the contender's, plus one hop on loopback each way.
//   - With a network (package distance), the stamps are those at the API server's end of it. So the
//     time between an event and a request includes a round trip.
//   - Events are parsed in all forms in which the API server sends them: lines of JSON, frames
//     of protobuf, and messages of a WebSocket. They are parsed after they were passed on.
//   - A write is needless if the resource version in its answer existed before the write
//     arrived. The API server's versions grow with each change of any object, so the proxy
//     compares with the highest version seen so far, in any call or event. A needless write
//     that follows another client's change which the proxy has not seen yet counts as a change.
//     So the count is a lower bound.
//   - The record is kept in memory, and written to a file only on request.
//
// The proxy costs 0.15 ms of CPU for a request (BenchmarkAnAnswer), in the harness's process. An
// event of 2 kB costs less than 0.03 ms (BenchmarkAnEvent). A write costs API server and etcd 2
// to 5 ms.
package proxy
