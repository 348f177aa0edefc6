// Command node holds the services of a node of internal/localcluster that are not part of
// Kubernetes itself. It behaves as coredns or local-volumes, whichever name it is called by (a
// symbolic link, or argv[0]).
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/coredns/coredns/coremain"

	// The plugins that the cluster's Corefile uses. All of them would compile five times as long.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "coredns":
		coremain.Run()
	case "local-volumes":
		if err := provision(); err != nil {
			fmt.Fprintln(os.Stderr, "local-volumes:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "node: called as %q; call it as coredns or local-volumes\n", name)
		os.Exit(2)
	}
}
