package webhook

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Handler returns the handler of a server, without its listener.
func (s *Server) Handler() http.Handler { return s.handler() }

// RunLog reports the records that are left out until ctx ends.
func (s *Server) RunLog(ctx context.Context) error { return s.failed.limit.Run(ctx) }

// Certificate returns what the server presents in a handshake.
var Certificate = (*Server).certificate

// SetTimings shortens the times of a rotation.
func (s *Server) SetTimings(propagation, overlap, lifetime time.Duration) {
	s.timings = timings{propagation, overlap, lifetime}
}

// PatchOf is patchOf.
var PatchOf = patchOf

// Keep keeps certificates and configurations up to date until ctx ends, without a listener.
func (s *Server) Keep(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	return newKeeper(s).run(ctx)
}

// Issue creates a certificate with its authority for a host, as entries of a Secret.
func Issue(host string, lifetime time.Duration) map[string][]byte {
	made, err := issue([]string{host}, lifetime, time.Now())
	if err != nil {
		panic(err)
	}
	return made
}

// Covers checks a resource definition with versions against the functions of a server.
func Covers(s *Server, versions ...string) error {
	var listed []any
	for _, version := range versions {
		listed = append(listed, map[string]any{"name": version})
	}
	live := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": listed}}}
	made := s.configurations()
	return made[len(made)-1].check(live)
}
