// Files is a controller with a source outside of the cluster: the text files of a folder. Each file becomes
// a ConfigMap of its name in the namespace default, and is kept equal to it.
//
//	go run ./controller/examples/files FOLDER
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "files: give the folder of the text files")
		os.Exit(2) //nolint:gocritic // what is deferred ends with the process.
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "files:", err)
		os.Exit(1)
	}
}

// named maps a file to the ConfigMap of its name.
func named(events []sources.FileEvent) (names []types.NamespacedName, err error) {
	for _, event := range events {
		if name, isText := strings.CutSuffix(event.Path, ".txt"); isText {
			names = append(names, types.NamespacedName{Namespace: "default", Name: name})
		}
	}
	return names, nil
}

func run(ctx context.Context, folder string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // Without KUBECONFIG: the cluster that it runs in.
	if err != nil {
		return err
	}
	manager, err := controller.NewManager(config, scheme.Scheme, controller.Options{Namespaces: []string{"default"}})
	if err != nil {
		return err
	}
	client := manager.Client()
	reconcile := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		content, err := os.ReadFile(filepath.Join(folder, request.Name+".txt"))
		if errors.Is(err, os.ErrNotExist) {
			gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
			return 0, controller.IgnoreNotFound(controller.Delete(ctx, client, gone))
		}
		if err != nil {
			return 0, err
		}
		wanted := applycorev1.ConfigMap(request.Name, request.Namespace).
			WithLabels(map[string]string{"from": "files"}).WithData(map[string]string{"content": string(content)})
		_, err = controller.Apply[*corev1.ConfigMap](ctx, client, wanted, controller.Force())
		return 0, err
	}
	files := streams.MapOnReceive(sources.Files(folder, sources.FilesOptions{}), named)
	if err := manager.Add("files", reconcile,
		controller.For(&corev1.ConfigMap{}, controller.LabelSelector("from=files")), // It repairs what others change.
		controller.From("files of "+folder, files)); err != nil {
		return err
	}
	return manager.Run(ctx)
}
