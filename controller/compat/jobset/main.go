// Command jobset is the operator of JobSet, on Bellerophon. Its reconcilers and webhooks are those of the
// module sigs.k8s.io/jobset, unchanged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/compat"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

func init() { utilruntime.Must(jobset.AddToScheme(scheme.Scheme)) }

func main() {
	certificates := flag.String("webhook-certificates", "", "the folder with tls.crt and tls.key; without it, no webhooks are served")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	ctx := ctrl.SetupSignalHandler()
	mgr, err := compat.NewManager(ctrl.GetConfigOrDie(), options(*certificates), controller.Options{})
	if err == nil {
		err = setUp(ctx, mgr, *certificates != "")
	}
	if err == nil {
		err = mgr.Start(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func options(certificates string) ctrl.Options {
	return ctrl.Options{Scheme: scheme.Scheme, WebhookServer: webhook.NewServer(webhook.Options{CertDir: certificates})}
}

// setUp adds JobSet's controllers, and its webhooks if they are served. It does not know whose manager it gets.
func setUp(ctx context.Context, mgr ctrl.Manager, serve bool) error {
	jobs := controllers.NewJobSetReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("jobset"))
	pods := controllers.NewPodReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("pod"))
	err := errors.Join(
		controllers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()), controllers.SetupPodIndexes(ctx, mgr.GetFieldIndexer()),
		jobs.SetupWithManager(mgr), pods.SetupWithManager(mgr))
	if err == nil && serve {
		err = webhooks.Setup(mgr)
	}
	return err
}
