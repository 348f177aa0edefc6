// Package uninstall takes an operator out of a cluster, so that nothing waits for an operator that is gone: no finalizer,
// no webhook and no conversion.
package uninstall

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
)

// Options says which operator is taken out, and what goes with it.
type Options struct {
	Release    string        // of the Helm chart, which need not be installed by Helm
	Namespace  string        // of the release
	Everything bool          // the objects of the kinds go too, with all that they own, and then the definitions
	Force      bool          // with Everything: finalizers of the operator are removed, and no last backup is taken
	Timeout    time.Duration // for each thing that has to go, 1 s to 1 h
}

func (o Options) check() error {
	for _, each := range []struct{ flag, value string }{{"release", o.Release}, {"namespace", o.Namespace}} {
		if problems := validation.NameIsDNSLabel(each.value, false); len(problems) > 0 {
			return fmt.Errorf("--%s is %q: %s", each.flag, each.value, strings.Join(problems, "; "))
		}
	}
	switch {
	case o.Force && !o.Everything:
		return fmt.Errorf("--force needs --everything: without it, no object is deleted")
	case o.Timeout < time.Second || o.Timeout > time.Hour:
		return fmt.Errorf("--timeout is %v; allowed is 1s to 1h", o.Timeout)
	}
	return nil
}
