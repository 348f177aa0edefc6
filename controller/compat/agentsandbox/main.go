// Command agentsandbox is the operator of Agent Sandbox, on Bellerophon. Its reconcilers are those of the module
// sigs.k8s.io/agent-sandbox, unchanged.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	sandboxes "sigs.k8s.io/agent-sandbox/api/v1alpha1"
	"sigs.k8s.io/agent-sandbox/controllers"
	extensions "sigs.k8s.io/agent-sandbox/extensions/api/v1alpha1"
	extended "sigs.k8s.io/agent-sandbox/extensions/controllers"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func init() {
	utilruntime.Must(sandboxes.AddToScheme(scheme.Scheme))
	utilruntime.Must(extensions.AddToScheme(scheme.Scheme))
}

func main() {
	ctrl.SetLogger(zap.New())
	mgr, err := compat.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme.Scheme}, controller.Options{})
	if err == nil {
		err = setUp(mgr)
	}
	if err == nil {
		err = mgr.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// setUp adds the controllers of Agent Sandbox. It does not know whose manager it gets.
func setUp(mgr ctrl.Manager) error {
	return errors.Join(
		(&controllers.SandboxReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr),
		(&extended.SandboxClaimReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}).SetupWithManager(mgr),
		(&extended.SandboxWarmPoolReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr))
}
