//go:build !linux

package localcluster

import (
	"errors"
	"syscall"

	"github.com/bellerophon-io/bellerophon/internal/subprocess"
)

// namespaces is for Linux alone.
type namespaces struct{}

var errNoNamespaces = errors.New("this system has no namespaces")

func nodeAttributes() *syscall.SysProcAttr { return subprocess.Attributes() }

func onMainThread() bool { return false }

func openNamespaces(int) (*namespaces, error) { return nil, errNoNamespaces }

func (n *namespaces) close() error { return nil }

func (n *namespaces) run(bool, func() error) error { return errNoNamespaces }

func probeNamespaces(string, string) error { return errNoNamespaces }
