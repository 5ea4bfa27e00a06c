"""The default embedding model, `model.onnx`. Nexus reads the file and never imports this package."""
