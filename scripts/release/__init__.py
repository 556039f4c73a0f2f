"""What a release is made of and tried with: packages in clean environments, licences, an audit."""
