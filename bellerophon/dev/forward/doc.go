// Package forward forwards ports of a pod to this machine, and keeps the local ports while pods come and go.
//
// The local listeners belong to Forwards. For each pod there is one connection to the API server, and each local
// connection is a stream in it, as with kubectl port-forward. A local connection that finds no pod waits for the next one.
package forward
