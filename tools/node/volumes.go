package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provision serves the claims of one storage class until it gets an interrupt or SIGTERM.
func provision() error {
	flags := flag.NewFlagSet("local-volumes", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig file")
	name := flags.String("provisioner", "", "name of the provisioner in the storage class")
	directory := flags.String("directory", "", "existing directory for the directories of the volumes")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	controller.NewProvisionController(ctx, client, *name, directories{*directory},
		controller.LeaderElection(false), controller.MetricsPort(0)).Run(ctx)
	return nil
}

// directories provisions volumes that are directories of a node.
type directories struct{ root string }

// Provision makes a directory that every user of a container may write, and describes it as a
// local volume of the selected node.
func (d directories) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	spec := options.PVC.Spec
	if spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		return nil, controller.ProvisioningFinished, fmt.Errorf("volumeMode is %s; only %s is provisioned", *spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
	if options.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf("no node is selected; the storage class needs volumeBindingMode WaitForFirstConsumer")
	}
	path := filepath.Join(d.root, options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	if err := os.Chmod(path, 0o777); err != nil { // MkdirAll subtracts the umask.
		return nil, controller.ProvisioningFinished, err
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   spec.AccessModes,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{options.SelectedNodeName},
				}},
			}}}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the directory of a volume with its files.
func (d directories) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	return os.RemoveAll(filepath.Join(d.root, volume.Name))
}
